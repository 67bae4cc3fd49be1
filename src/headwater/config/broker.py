"""The broker's settings: Kafka's names where Kafka has the setting, `headwater.` before the name where it has not.

Every queue, frame, cache and wait of the broker has its limit here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from headwater.config.access_settings import AccessSettings
from headwater.config.broker_settings import NO_EFFECT, broker_settings_class
from headwater.config.compatibility_settings import CompatibilitySettings
from headwater.config.declaration import (
    BOOLEAN,
    INT,
    STRING,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    find_setting,
    setting,
    settings_of,
)
from headwater.config.group_defaults import GroupDefaults
from headwater.config.network_settings import NetworkSettings
from headwater.config.storage_settings import StorageSettings
from headwater.config.topic_defaults import TopicDefaults
from headwater.config.transaction_defaults import TransactionDefaults
from headwater.errors import ConfigError

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


@broker_settings_class
class BrokerConfig(
    NetworkSettings,
    StorageSettings,
    TopicDefaults,
    GroupDefaults,
    TransactionDefaults,
    AccessSettings,
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
        hidden = dict(self.hidden)
        for name, text in values.items():
            declared = find_setting(BrokerConfig, name, "broker")
            if source is not ConfigSource.STATIC_BROKER:
                if not declared.dynamic:
                    raise declared.refusal("can only be set when the broker starts")
                hidden[name] = self.explicit_values(declared)
            changes[declared.attribute] = declared.parse(text)
        origins = {**self.origins, **dict.fromkeys(values, source)}
        config = dataclasses.replace(self, origins=origins, hidden=hidden, **changes)
        config.check()
        return config

    def reloaded(self, fresh: Self) -> tuple[Self, tuple[str, ...]]:
        """These settings with the dynamic ones taken from `fresh`, and the names of the others that differ in `fresh`:
        they take effect at the next start."""
        declared = settings_of(BrokerConfig).items()
        changes: dict[str, Any] = {each.attribute: fresh.value_of(name) for name, each in declared if each.dynamic}
        origins = {name: (fresh if each.dynamic else self).origin_of(name) for name, each in declared}
        config = dataclasses.replace(self, origins=origins, **changes)
        config.check()
        return config, tuple(name for name, _ in declared if config.value_of(name) != fresh.value_of(name))

    @property
    def is_audited(self) -> bool:
        """Whether who did what is recorded."""
        if self.headwater_audit != "auto":
            return self.headwater_audit == "on"
        return self.has_authorizer or any(each.protocol.authenticates for each in self.listener_addresses)

    def check(self) -> None:
        """Refuse values that contradict each other."""
        super().check()
        if self.log_cleaner_min_compaction_lag_ms > self.log_cleaner_max_compaction_lag_ms:
            raise ConfigError(
                f"log.cleaner.min.compaction.lag.ms ({self.log_cleaner_min_compaction_lag_ms}) is more than "
                f"log.cleaner.max.compaction.lag.ms ({self.log_cleaner_max_compaction_lag_ms})"
            )


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
    """The broker's settings as DescribeConfigs shows them."""
    return [
        declared.entry(
            declared.disclosed(broker.value_of(name)),
            broker.origin_of(name),
            broker.lookups(_SYNONYMS.get(name, (name,))),
            read_only=not declared.dynamic,
        )
        for name, declared in settings_of(BrokerConfig).items()
    ]
