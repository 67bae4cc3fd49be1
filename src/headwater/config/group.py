"""A group's settings: Kafka's names and rules. The group need not exist. What it does not set comes from the broker.

Settings of share groups and of Kafka Streams are left out: there are no such groups here.
"""

from collections.abc import Mapping
from typing import Any, Self

from headwater.config.declaration import ConfigEntry, ConfigSource, Settings, declare, settings_class, settings_of
from headwater.config.group_defaults import GroupDefaults
from headwater.errors import ConfigError


def _inherited(name: str) -> Any:
    synonym = f"group.{name}"
    return declare(settings_of(GroupDefaults)[synonym]._replace(name=name, synonyms=(synonym,)))


@settings_class
class GroupConfig(Settings):
    consumer_heartbeat_interval_ms: int = _inherited("consumer.heartbeat.interval.ms")
    consumer_session_timeout_ms: int = _inherited("consumer.session.timeout.ms")

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str], broker: GroupDefaults) -> Self:
        """The settings of a group that sets `overrides` itself and inherits the rest from the broker."""
        config = cls(**broker.resolve(cls, overrides, "group"))
        config.check(broker)
        return config

    def check(self, broker: GroupDefaults) -> None:
        """Refuse values beyond the broker's bounds, and values that contradict each other."""
        heartbeat_ms, session_ms = self.consumer_heartbeat_interval_ms, self.consumer_session_timeout_ms
        _check_bounds(
            "consumer.heartbeat.interval.ms",
            heartbeat_ms,
            broker.group_consumer_min_heartbeat_interval_ms,
            broker.group_consumer_max_heartbeat_interval_ms,
        )
        _check_bounds(
            "consumer.session.timeout.ms",
            session_ms,
            broker.group_consumer_min_session_timeout_ms,
            broker.group_consumer_max_session_timeout_ms,
        )
        if heartbeat_ms >= session_ms:
            raise ConfigError(
                f"consumer.heartbeat.interval.ms ({heartbeat_ms}) is not less than consumer.session.timeout.ms "
                f"({session_ms})"
            )


def describe(overrides: Mapping[str, str], broker: GroupDefaults) -> list[ConfigEntry]:
    """The settings, as DescribeConfigs shows them, of a group that sets `overrides` itself."""
    return broker.entries(GroupConfig, overrides, ConfigSource.DYNAMIC_GROUP)


def _check_bounds(name: str, value: int, least: int, most: int) -> None:
    kind = name.removeprefix("consumer.")
    if value < least:
        raise ConfigError(f"{name} ({value}) is less than group.consumer.min.{kind} ({least})")
    if value > most:
        raise ConfigError(f"{name} ({value}) is more than group.consumer.max.{kind} ({most})")
