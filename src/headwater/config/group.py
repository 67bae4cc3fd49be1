"""A group's settings: Kafka's names and rules. The group need not exist. What it does not set comes from the broker.

Settings of Kafka Streams are left out: there are no such groups here.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Self

from headwater.config.declaration import (
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    ConfigEntry,
    ConfigSource,
    Settings,
    attribute_of,
    declare,
    setting,
    settings_class,
    settings_of,
)
from headwater.config.group_defaults import GroupDefaults
from headwater.config.share_defaults import BOUNDED
from headwater.errors import ConfigError

EARLIEST, LATEST = "earliest", "latest"
READ_COMMITTED = "read_committed"
LANE_COUNT = 5
_BY_DURATION = "by_duration:"
# Java's notation of a duration, without signs: days, hours, minutes and seconds.
_DURATION = re.compile(
    r"P(?:(\d{1,9})D)?(T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


def reset_duration_ms(reset: str) -> int | None:
    """How far back `share.auto.offset.reset` goes in time; None if it names the beginning or the end."""
    if reset in (EARLIEST, LATEST):
        return None
    text = reset.removeprefix(_BY_DURATION)
    found = _DURATION.fullmatch(text) if reset.startswith(_BY_DURATION) else None
    if found is None or text[-1] in "PpTt":
        raise ConfigError(f"'{reset[:40]}' is not earliest, latest, or a duration such as by_duration:PT1H")
    days, _, hours, minutes, seconds, fraction = found.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return whole * 1000 + int((fraction or "").ljust(3, "0")[:3])


@lru_cache(maxsize=64)
def lane_weights(text: str) -> tuple[int, ...]:
    """The weights of `headwater.share.priority.weights`, from critical to background."""
    weights = [part.strip() for part in text.split(",")]
    if len(weights) != LANE_COUNT or any(re.fullmatch("[1-9][0-9]{0,3}", each) is None for each in weights):
        raise ConfigError(f"'{text[:40]}' is not {LANE_COUNT} numbers from 1 to 9999, such as 50,25,15,7,3")
    return tuple(map(int, weights))


def _check_dead_letter_topic(name: str) -> None:
    if not name:
        return
    if re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is None or name in (".", ".."):
        raise ConfigError(f"'{name[:40]}' is no name of a topic: letters, digits, '.', '_' and '-' may be in it")
    if name.startswith("__"):
        raise ConfigError(f"'{name}' begins with '__', as internal topics do, which take no dead letters")


def _inherited(name: str) -> Any:
    synonym = f"group.{name}"
    inherited = settings_of(GroupDefaults)[synonym]._replace(name=name, synonyms=(synonym,))
    # The most that a group may set is a setting of the broker of its own (`group.share.max.`).
    return declare(inherited._replace(maximum=None) if inherited.maximum is not None else inherited)


@settings_class
class GroupConfig(Settings):
    consumer_heartbeat_interval_ms: int = _inherited("consumer.heartbeat.interval.ms")
    consumer_session_timeout_ms: int = _inherited("consumer.session.timeout.ms")
    share_heartbeat_interval_ms: int = _inherited("share.heartbeat.interval.ms")
    share_session_timeout_ms: int = _inherited("share.session.timeout.ms")
    share_record_lock_duration_ms: int = _inherited("share.record.lock.duration.ms")
    share_delivery_count_limit: int = _inherited("share.delivery.count.limit")
    share_partition_max_record_locks: int = _inherited("share.partition.max.record.locks")
    share_auto_offset_reset: str = setting(
        STRING,
        "share.auto.offset.reset",
        LATEST,
        "Where a share group begins in a partition that is new to it: earliest, latest, or by_duration: and how far "
        "back in time, as in by_duration:PT1H.",
        check=reset_duration_ms,
    )
    share_isolation_level: str = setting(
        STRING,
        "share.isolation.level",
        "read_uncommitted",
        "Whether a share group is given records of transactions that are open or were aborted.",
        allowed=("read_committed", "read_uncommitted"),
    )
    share_renew_acknowledge_enable: bool = setting(
        BOOLEAN,
        "share.renew.acknowledge.enable",
        True,
        "Whether members of a share group may hold records for longer than share.record.lock.duration.ms.",
    )
    headwater_share_retry_backoff_ms: int = setting(
        INT,
        "headwater.share.retry.backoff.ms",
        0,
        "How long a record that a member of a share group gave back, or lost, waits for its second delivery; 0 is not "
        "at all.",
        minimum=0,
        maximum=86_400_000,
    )
    headwater_share_retry_backoff_factor: float = setting(
        DOUBLE,
        "headwater.share.retry.backoff.factor",
        2.0,
        "How many times longer each further wait of a record is than the one before.",
        minimum=1,
        maximum=100,
    )
    headwater_share_retry_backoff_max_ms: int = setting(
        INT,
        "headwater.share.retry.backoff.max.ms",
        60_000,
        "The longest that a record waits between two deliveries.",
        minimum=0,
        maximum=86_400_000,
    )

    headwater_share_priority_weights: str = setting(
        STRING,
        "headwater.share.priority.weights",
        "50,25,15,7,3",
        "How many records of each priority, critical to background, a share group is given in turn, in topics with "
        "headwater.priority.enable.",
        check=lane_weights,
    )
    headwater_share_priority_boost_ms: int = setting(
        INT,
        "headwater.share.priority.boost.ms",
        30_000,
        "A priority whose records wait for so long without one being given to the share group is next.",
        minimum=1,
        maximum=86_400_000,
    )
    headwater_share_priority_ranges_max: int = setting(
        INT,
        "headwater.share.priority.ranges.max",
        20_000,
        "How many ranges of records in different states a share group may have in a partition before it is given the "
        "oldest records first, until there are fewer. Each takes memory, and room in __share_group_state.",
        minimum=100,
        maximum=1_000_000,
    )

    errors_deadletterqueue_topic_name: str = setting(
        STRING,
        "errors.deadletterqueue.topic.name",
        "",
        "The topic that a share group's dead letters are copied to: records that were rejected or delivered too often. "
        "Empty: none, unless headwater.deadletterqueue.enable is set.",
        check=_check_dead_letter_topic,
    )
    errors_deadletterqueue_copy_record_enable: bool = setting(
        BOOLEAN,
        "errors.deadletterqueue.copy.record.enable",
        True,
        "Whether a dead letter has the key, the value and the headers of its record, or only says which one it was. "
        "(Kafka's default is false.)",
    )
    headwater_deadletterqueue_enable: bool = setting(
        BOOLEAN,
        "headwater.deadletterqueue.enable",
        False,
        "Whether a share group that names no dead-letter topic has one for each of its topics: TOPIC.dlq.",
    )
    headwater_deadletterqueue_expired_enable: bool = setting(
        BOOLEAN,
        "headwater.deadletterqueue.expired.enable",
        False,
        "Whether records whose time to live is over become dead letters, too.",
    )

    @property
    def has_dead_letters(self) -> bool:
        return self.headwater_deadletterqueue_enable or bool(self.errors_deadletterqueue_topic_name)

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
        for kind in BOUNDED:
            _check_within(f"share.{kind}", self, broker)
        heartbeat_ms, session_ms = self.share_heartbeat_interval_ms, self.share_session_timeout_ms
        if heartbeat_ms >= session_ms:
            raise ConfigError(
                f"share.heartbeat.interval.ms ({heartbeat_ms}) is not less than share.session.timeout.ms ({session_ms})"
            )


def describe(overrides: Mapping[str, str], broker: GroupDefaults) -> list[ConfigEntry]:
    """The settings, as DescribeConfigs shows them, of a group that sets `overrides` itself."""
    return broker.entries(GroupConfig, overrides, ConfigSource.DYNAMIC_GROUP)


def _check_within(name: str, config: GroupConfig, broker: GroupDefaults) -> None:
    kind = name.removeprefix("share.")
    value = getattr(config, attribute_of(name))
    for bound, is_beyond in (("min", value.__lt__), ("max", value.__gt__)):
        limit = broker.value_of(f"group.share.{bound}.{kind}")
        if is_beyond(limit):
            raise ConfigError(
                f"{name} ({value}) is {'less' if bound == 'min' else 'more'} than group.share.{bound}.{kind} ({limit})"
            )


def _check_bounds(name: str, value: int, least: int, most: int) -> None:
    kind = name.removeprefix("consumer.")
    if value < least:
        raise ConfigError(f"{name} ({value}) is less than group.consumer.min.{kind} ({least})")
    if value > most:
        raise ConfigError(f"{name} ({value}) is more than group.consumer.max.{kind} ({most})")
