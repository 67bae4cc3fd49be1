"""The broker's settings: Kafka's names where Kafka has the setting, `headwater.` before the name where it has not.

Every queue, frame, cache and wait of the broker has its limit here.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from headwater.config.broker_settings import NO_EFFECT, broker_settings_class
from headwater.config.declaration import (
    BOOLEAN,
    INT,
    STRING,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    Setting,
    setting,
    settings_of,
)
from headwater.config.group_defaults import GroupDefaults
from headwater.config.listener_overrides import ListenerOverride, find_overridable, split_name, values_of
from headwater.config.listeners import BASIC, BEARER, ListenerAddress, SecurityProtocol
from headwater.config.settings.access import AccessSettings
from headwater.config.settings.compatibility import CompatibilitySettings
from headwater.config.settings.network import NetworkSettings
from headwater.config.settings.rest_proxy import RestProxySettings
from headwater.config.settings.sasl import SaslSettings
from headwater.config.settings.schema import SchemaSettings
from headwater.config.settings.storage import StorageSettings
from headwater.config.settings.tls import CLIENT_AUTH_NONE, CLIENT_AUTH_REQUIRED, TlsSettings
from headwater.config.topic_defaults import TopicDefaults
from headwater.config.transaction_defaults import TransactionDefaults
from headwater.errors import ConfigError
from headwater.security.mechanisms import OAUTHBEARER, PLAIN

# Settings with one meaning, strongest first, as DescribeConfigs lists them.
_SYNONYMS = {
    names[0]: names
    for names in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
}

_MECHANISM_OF_SCHEME = {BASIC: PLAIN, BEARER: OAUTHBEARER}

_BY_RELOAD = "change the settings of the broker and send it SIGHUP"


@broker_settings_class
class BrokerConfig(
    NetworkSettings,
    TlsSettings,
    SaslSettings,
    StorageSettings,
    TopicDefaults,
    GroupDefaults,
    TransactionDefaults,
    AccessSettings,
    SchemaSettings,
    RestProxySettings,
    CompatibilitySettings,
):
    # Who and where
    node_id: int = setting(INT, "node.id", 1, "The number of this broker, unlike that of every other.", minimum=0)
    broker_rack: str | None = setting(
        STRING, "broker.rack", None, "The rack or zone that the broker is in, told to clients that fetch nearby."
    )
    log_dir: str = setting(
        STRING, "log.dir", "./headwater-data", "The directory that holds all data, for one broker alone.", pattern=".+"
    )

    # Topics
    auto_create_topics_enable: bool = setting(
        BOOLEAN,
        "auto.create.topics.enable",
        True,
        "Whether a topic comes into being when a client first asks for it.",
        dynamic=True,
    )
    num_partitions: int = setting(
        INT,
        "num.partitions",
        3,
        "How many partitions a topic gets where its creator does not say. (Kafka gives it 1.)",
        minimum=1,
        maximum=10_000,
        dynamic=True,
    )
    default_replication_factor: int = setting(
        INT,
        "default.replication.factor",
        1,
        f"How many replicas a partition gets where its creator does not say. {NO_EFFECT}",
        minimum=1,
        maximum=32_767,
        dynamic=True,
    )
    delete_topic_enable: bool = setting(
        BOOLEAN, "delete.topic.enable", True, "Whether clients may delete topics.", dynamic=True
    )
    headwater_topics_max: int = setting(
        INT,
        "headwater.topics.max",
        100_000,
        "How many topics the broker holds before it refuses to create more.",
        minimum=1,
        dynamic=True,
    )
    headwater_partitions_max: int = setting(
        INT,
        "headwater.partitions.max",
        200_000,
        "How many partitions the broker holds, over all topics, before it refuses to create more.",
        minimum=1,
        dynamic=True,
    )
    headwater_create_partitions_max: int = setting(
        INT,
        "headwater.create.partitions.max",
        10_000,
        "How many partitions one request may create. (Kafka's limit is the same, and fixed.)",
        minimum=1,
        dynamic=True,
    )

    # What the process says of itself
    headwater_log_format: str = setting(
        STRING,
        "headwater.log.format",
        "auto",
        "The form of the process's own log: human text, JSON lines, or auto (human on a terminal, JSON elsewhere).",
        allowed=("auto", "human", "json"),
    )
    headwater_log_level: str = setting(
        STRING,
        "headwater.log.level",
        "info",
        "The least severity that the process logs.",
        allowed=("debug", "info", "warning", "error"),
        dynamic=True,
    )

    @classmethod
    def from_values(cls, values: Mapping[str, str], source: ConfigSource = ConfigSource.STATIC_BROKER) -> Self:
        """The settings in `values`, by Kafka's names, over the defaults."""
        return cls().changed(values, source)

    def changed(self, values: Mapping[str, str], source: ConfigSource = ConfigSource.DYNAMIC_BROKER) -> Self:
        """These settings with `values` over them."""
        changes: dict[str, Any] = {}
        hidden, origins = dict(self.hidden), dict(self.origins)
        overrides = {each.name: each for each in self.listener_overrides}
        for name, text in values.items():
            declared = find_overridable(BrokerConfig, name, "broker")
            if source is not ConfigSource.STATIC_BROKER and not declared.dynamic:
                raise declared.refusal(_why_unchangeable(declared))
            value = declared.parse(text)
            override = split_name(BrokerConfig, name)
            if override is None:
                changes[declared.attribute] = value
                if source is not ConfigSource.STATIC_BROKER:
                    hidden[name] = self.explicit_values(declared)
            else:
                listener, overridden = override
                overrides[declared.name] = ListenerOverride(listener, overridden.name, value)
            origins[declared.name] = source
        config = dataclasses.replace(
            self, origins=origins, hidden=hidden, listener_overrides=tuple(overrides.values()), **changes
        )
        config.check()
        return config

    def of_listener(self, name: str) -> Self:
        """These settings as they are for the listener of that name."""
        values = values_of(self.listener_overrides, name)
        return dataclasses.replace(self, **values) if values else self

    def client_auth_of(self, address: ListenerAddress) -> str:
        """Whether clients of a listener show a certificate. As in Kafka, where they authenticate by SASL they are not
        asked for one, unless the setting is that of the listener itself."""
        if address.protocol is not SecurityProtocol.SASL_SSL:
            return self.of_listener(address.name).ssl_client_auth
        return str(values_of(self.listener_overrides, address.name).get("ssl_client_auth", CLIENT_AUTH_NONE))

    def authenticates(self, address: ListenerAddress) -> bool:
        """Whether every client of a listener has to prove who it is."""
        if address.protocol is SecurityProtocol.SSL:
            return self.client_auth_of(address) == CLIENT_AUTH_REQUIRED
        return address.protocol.is_sasl

    def reloaded(self, fresh: Self) -> tuple[Self, tuple[str, ...]]:
        """These settings with those that may change taken from `fresh`, and the names of the others that differ in
        `fresh`: they take effect at the next start."""
        declared = settings_of(BrokerConfig).items()
        changes: dict[str, Any] = {
            each.attribute: fresh.value_of(name) for name, each in declared if each.is_reloadable
        }
        origins = {name: (fresh if each.is_reloadable else self).origin_of(name) for name, each in declared}
        overrides, waiting = self._reloaded_overrides(fresh)
        config = dataclasses.replace(self, origins=origins, listener_overrides=overrides, **changes)
        config.check()
        waiting += (name for name, _ in declared if config.value_of(name) != fresh.value_of(name))
        return config, tuple(waiting)

    def _reloaded_overrides(self, fresh: Self) -> tuple[tuple[ListenerOverride, ...], list[str]]:
        """The overrides of listeners after a reload, and the names of those that take effect at the next start."""
        declared = settings_of(BrokerConfig)
        kept = [each for each in self.listener_overrides if not declared[each.setting].is_reloadable]
        live = [each for each in fresh.listener_overrides if declared[each.setting].is_reloadable]
        waiting = {*kept} ^ {*fresh.listener_overrides} - {*live}
        return (*kept, *live), sorted({each.name for each in waiting})

    @property
    def is_audited(self) -> bool:
        """Whether who did what is recorded."""
        if self.headwater_audit != "auto":
            return self.headwater_audit == "on"
        return self.has_authorizer or any(self.authenticates(each) for each in self.all_addresses)

    def check(self) -> None:
        """Refuse values that contradict each other."""
        super().check()
        if self.log_cleaner_min_compaction_lag_ms > self.log_cleaner_max_compaction_lag_ms:
            raise ConfigError(
                f"log.cleaner.min.compaction.lag.ms ({self.log_cleaner_min_compaction_lag_ms}) is more than "
                f"log.cleaner.max.compaction.lag.ms ({self.log_cleaner_max_compaction_lag_ms})"
            )
        addresses = self.all_addresses
        for address in addresses:
            self._check_exposure(address)
        listeners = {address.name for address in addresses}
        for override in self.listener_overrides:
            if override.listener not in listeners:
                raise ConfigError(f"{override.name}: there is no listener {override.listener} (listeners)")
        if OAUTHBEARER in self.mechanisms_in_use and self.sasl_oauthbearer_jwks_endpoint_url is None:
            raise ConfigError(
                f"sasl.enabled.mechanisms has {OAUTHBEARER}, or headwater.http.authentication has {BEARER}, which "
                "needs the keys of the issuer of tokens (sasl.oauthbearer.jwks.endpoint.url)"
            )

    @property
    def mechanisms_in_use(self) -> frozenset[str]:
        """The SASL mechanisms of all listeners."""
        return frozenset(
            mechanism
            for address in self.all_addresses
            if address.protocol.is_sasl
            for mechanism in self.mechanisms_of(address)
        )

    def mechanisms_of(self, address: ListenerAddress) -> Sequence[str]:
        """The SASL mechanisms of a listener. Over HTTP, a password is verified as by PLAIN, a token as by
        OAUTHBEARER."""
        config = self.of_listener(address.name)
        if address in self.http_addresses:
            return [_MECHANISM_OF_SCHEME[scheme] for scheme in config.headwater_http_authentication]
        return config.sasl_enabled_mechanisms

    def _check_exposure(self, address: ListenerAddress) -> None:
        """Refuse a listener that would let anyone in from other machines."""
        if self.headwater_insecure_listeners_allow or address.bound.loopback or self.authenticates(address):
            return
        is_http = address in self.http_addresses
        setting, instead = (
            ("headwater.http.listeners", "headwater.http.authentication, or HTTPS")
            if is_http
            else ("listeners", "SASL_SSL, or SSL")
        )
        raise ConfigError(
            f"{setting}: {address.name} listens on {address.bound}, which other machines can reach, and its clients "
            f"need not authenticate ({address.protocol.value}): have them authenticate ({instead} with "
            "ssl.client.auth=required), or set headwater.insecure.listeners.allow=true"
        )


def _why_unchangeable(declared: Setting) -> str:
    """Why a setting is not changed through the protocol."""
    if not declared.reload_only:
        return "can only be set when the broker starts"
    if declared.sensitive:
        return f"is secret, and the broker's data would hold it in plain text: {_BY_RELOAD}"
    return f"names a file, which no client may choose: {_BY_RELOAD}"


def changed_names(before: BrokerConfig, after: BrokerConfig) -> list[str]:
    """The settings that have another value, those of single listeners among them."""
    names = [name for name in settings_of(BrokerConfig) if before.value_of(name) != after.value_of(name)]
    overrides = {*before.listener_overrides} ^ {*after.listener_overrides}
    return names + sorted({each.name for each in overrides})


def describe_defaults(values: Mapping[str, str]) -> list[ConfigEntry]:
    """The defaults of all brokers, as DescribeConfigs shows them: no others than those that are set."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        declared.entry(
            value := declared.disclosed(declared.parse(text)),
            source,
            (ConfigSynonym(name, value, source),),
            read_only=False,
        )
        for name, text in sorted(values.items())
        if (declared := settings_of(BrokerConfig).get(name)) is not None
    ]


def describe(broker: BrokerConfig) -> list[ConfigEntry]:
    """The broker's settings as DescribeConfigs shows them, then those that single listeners override."""
    return [*_broker_entries(broker), *_override_entries(broker)]


def _broker_entries(broker: BrokerConfig) -> list[ConfigEntry]:
    return [
        declared.entry(
            declared.disclosed(broker.value_of(name)),
            broker.origin_of(name),
            broker.lookups(_SYNONYMS.get(name, (name,))),
            read_only=not declared.dynamic,
        )
        for name, declared in settings_of(BrokerConfig).items()
    ]


def _override_entries(broker: BrokerConfig) -> list[ConfigEntry]:
    entries: list[ConfigEntry] = []
    for override in sorted(broker.listener_overrides, key=lambda override: override.name):
        declared = find_overridable(BrokerConfig, override.name, "broker")
        value = declared.disclosed(override.value)
        origin = broker.origins.get(override.name, ConfigSource.STATIC_BROKER)
        synonyms = (ConfigSynonym(override.name, value, origin), *broker.lookups((override.setting,)))
        entries.append(declared.entry(value, origin, synonyms, read_only=not declared.dynamic))
    return entries
