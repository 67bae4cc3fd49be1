"""A topic's settings: Kafka's names, defaults and rules, and some of our own.

What a topic does not set itself comes from the broker's setting of the same meaning, as in Kafka.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from headwater.config.broker_settings import NO_EFFECT
from headwater.config.declaration import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    ConfigEntry,
    ConfigSource,
    Settings,
    declare,
    derived,
    in_milliseconds,
    setting,
    settings_class,
    settings_of,
)
from headwater.config.topic_defaults import TopicDefaults
from headwater.errors import ConfigError

# The codec numbers of record batches, by the names that compression.type gives them.
_CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
# Far beyond any real time, and far enough from the limits of 64 bits.
_ANY_TIME_MS = 2**61
_THROTTLED_REPLICA = r"\*|[0-9]{1,10}:[0-9]{1,10}"


def _inherited(name: str, *synonyms: str, minimum: int | None = None) -> Any:
    """A topic setting that is declared by its broker synonyms, strongest first; only the last one always has a
    value."""
    strongest, weakest = (settings_of(TopicDefaults)[synonym] for synonym in (synonyms[0], synonyms[-1]))
    bounds: dict[str, Any] = {} if minimum is None else {"minimum": minimum, "also": ()}
    default = in_milliseconds(weakest.name, weakest.default)
    return declare(strongest._replace(name=name, default=default, synonyms=synonyms, **bounds))


@settings_class
class TopicConfig(Settings):
    cleanup_policy: frozenset[str] = _inherited("cleanup.policy", "log.cleanup.policy")
    compression_gzip_level: int = _inherited("compression.gzip.level", "compression.gzip.level")
    compression_lz4_level: int = _inherited("compression.lz4.level", "compression.lz4.level")
    compression_type: str = _inherited("compression.type", "compression.type")
    compression_zstd_level: int = _inherited("compression.zstd.level", "compression.zstd.level")
    delete_retention_ms: int = _inherited("delete.retention.ms", "log.cleaner.delete.retention.ms")
    errors_deadletterqueue_group_enable: bool = setting(
        BOOLEAN,
        "errors.deadletterqueue.group.enable",
        False,
        "Whether share groups may use the topic for their dead letters.",
    )
    file_delete_delay_ms: int = _inherited("file.delete.delay.ms", "log.segment.delete.delay.ms")
    flush_messages: int = _inherited("flush.messages", "log.flush.interval.messages")
    flush_ms: int = _inherited("flush.ms", "log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    follower_replication_throttled_replicas: frozenset[str] = setting(
        LIST,
        "follower.replication.throttled.replicas",
        frozenset(),
        f"Replicas (partition:broker, or * for all) throttled on the follower's side. {NO_EFFECT}",
        pattern=_THROTTLED_REPLICA,
    )
    headwater_delay_enable: bool = setting(
        BOOLEAN,
        "headwater.delay.enable",
        False,
        "Whether records may ask to be delivered later, with the headers headwater-delay-ms or headwater-deliver-at.",
    )
    headwater_delay_max_ms: int = setting(
        LONG,
        "headwater.delay.max.ms",
        30 * 24 * 3_600_000,
        "How far ahead a record may be scheduled.",
        minimum=1,
    )
    headwater_delay_pending_max: int = setting(
        INT,
        "headwater.delay.pending.max",
        1_000_000,
        "How many records of the topic may be scheduled at a time; more are refused.",
        minimum=1,
    )
    headwater_flush: str = _inherited("headwater.flush", "headwater.flush")
    headwater_key_schema_subject: str = setting(
        STRING,
        "headwater.key.schema.subject",
        "",
        "The subject that schemas of keys must belong to, in place of the strategy's. With full validation, keys "
        "without a schema's number are then checked against its latest version.",
    )
    headwater_key_schema_validation: str = _inherited(
        "headwater.key.schema.validation", "headwater.key.schema.validation"
    )
    headwater_key_subject_name_strategy: str = _inherited(
        "headwater.key.subject.name.strategy", "headwater.key.subject.name.strategy"
    )
    headwater_priority_enable: bool = setting(
        BOOLEAN,
        "headwater.priority.enable",
        False,
        "Whether share groups hand records out by their header headwater-priority, 0 (critical) to 4 (background).",
    )
    headwater_record_validation: str = setting(
        STRING,
        "headwater.record.validation",
        "full",
        "How far a produced batch is checked: full walks every record, header trusts the checksum and the header.",
        allowed=("full", "header"),
    )
    headwater_ttl_enable: bool = setting(
        BOOLEAN,
        "headwater.ttl.enable",
        False,
        "Whether records may set how long share groups may deliver them, with the header headwater-ttl-ms.",
    )
    headwater_ttl_ms: int = setting(
        LONG,
        "headwater.ttl.ms",
        -1,
        "How long after its timestamp a record is delivered to share groups, unless it says so itself; -1 is forever.",
        minimum=1,
        also=(-1,),
    )
    headwater_value_schema_subject: str = setting(
        STRING,
        "headwater.value.schema.subject",
        "",
        "The subject that schemas of values must belong to, as headwater.key.schema.subject for keys.",
    )
    headwater_value_schema_validation: str = _inherited(
        "headwater.value.schema.validation", "headwater.value.schema.validation"
    )
    headwater_value_subject_name_strategy: str = _inherited(
        "headwater.value.subject.name.strategy", "headwater.value.subject.name.strategy"
    )
    index_interval_bytes: int = _inherited("index.interval.bytes", "log.index.interval.bytes")
    leader_replication_throttled_replicas: frozenset[str] = setting(
        LIST,
        "leader.replication.throttled.replicas",
        frozenset(),
        f"Replicas (partition:broker, or * for all) throttled on the leader's side. {NO_EFFECT}",
        pattern=_THROTTLED_REPLICA,
    )
    local_retention_bytes: int = _inherited("local.retention.bytes", "log.local.retention.bytes")
    local_retention_ms: int = _inherited("local.retention.ms", "log.local.retention.ms")
    max_compaction_lag_ms: int = _inherited("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    max_message_bytes: int = _inherited("max.message.bytes", "message.max.bytes")
    message_timestamp_after_max_ms: int = _inherited(
        "message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"
    )
    message_timestamp_before_max_ms: int = _inherited(
        "message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"
    )
    message_timestamp_type: str = _inherited("message.timestamp.type", "log.message.timestamp.type")
    min_cleanable_dirty_ratio: float = _inherited("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio")
    min_compaction_lag_ms: int = _inherited("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = _inherited("min.insync.replicas", "min.insync.replicas")
    preallocate: bool = _inherited("preallocate", "log.preallocate")
    remote_log_copy_disable: bool = setting(
        BOOLEAN,
        "remote.log.copy.disable",
        False,
        f"Whether tiered storage stops copying and becomes read-only. {NO_EFFECT}",
    )
    remote_log_delete_on_disable: bool = setting(
        BOOLEAN,
        "remote.log.delete.on.disable",
        False,
        f"Whether switching tiered storage off deletes what it held. {NO_EFFECT}",
    )
    remote_storage_enable: bool = setting(
        BOOLEAN,
        "remote.storage.enable",
        False,
        "Whether old segments move to tiered storage. Only false is accepted, because there is none yet.",
    )
    retention_bytes: int = _inherited("retention.bytes", "log.retention.bytes")
    # A topic may set 0, which deletes every closed segment; a broker may not.
    retention_ms: int = _inherited(
        "retention.ms", "log.retention.ms", "log.retention.minutes", "log.retention.hours", minimum=-1
    )
    segment_bytes: int = _inherited("segment.bytes", "log.segment.bytes")
    segment_index_bytes: int = _inherited("segment.index.bytes", "log.index.size.max.bytes")
    segment_jitter_ms: int = _inherited("segment.jitter.ms", "log.roll.jitter.ms", "log.roll.jitter.hours")
    segment_ms: int = _inherited("segment.ms", "log.roll.ms", "log.roll.hours")
    unclean_leader_election_enable: bool = _inherited(
        "unclean.leader.election.enable", "unclean.leader.election.enable"
    )

    # Computed once in the constructor, because every produced batch reads them.
    is_compacted: bool = derived()
    is_log_append_time: bool = derived()
    # Whether each record of a batch is checked, and not only the batch's header.
    reads_records: bool = derived()
    # Whether records may have headers that the broker heeds (`protocol/batches/directives.py`).
    has_directives: bool = derived()
    # Whether keys or values must follow schemas.
    has_schemas: bool = derived()
    # Whether either is so: the broker then looks into the records of a batch.
    reads_contents: bool = derived()
    # Whether records expire.
    has_ttl: bool = derived()
    # How far a record's timestamp may be in the past and in the future.
    timestamp_before_max_ms: int = derived()
    timestamp_after_max_ms: int = derived()
    # The age at which a segment rolls, before jitter.
    roll_ms: int = derived()
    # The codec that batches are stored in; None keeps the producer's.
    stored_codec: int | None = derived()

    def __init__(self, **values: Any) -> None:
        Settings.__init__(self, **values)
        derive = partial(object.__setattr__, self)
        derive("is_compacted", "compact" in self.cleanup_policy)
        derive("is_log_append_time", self.message_timestamp_type == "LogAppendTime")
        has_directives = self.headwater_delay_enable or self.headwater_priority_enable or self.headwater_ttl_enable
        derive("has_directives", has_directives)
        validations = (self.headwater_key_schema_validation, self.headwater_value_schema_validation)
        has_schemas = any(each != "none" for each in validations)
        derive("has_schemas", has_schemas)
        derive("has_ttl", self.headwater_ttl_enable or self.headwater_ttl_ms >= 0)
        is_validated = self.is_compacted or self.headwater_record_validation == "full"
        derive("reads_contents", has_directives or has_schemas)
        derive("reads_records", is_validated or self.reads_contents)
        # With LogAppendTime the broker replaces the client's timestamps anyway.
        before_ms, after_ms = (
            _ANY_TIME_MS if self.is_log_append_time else min(limit_ms, _ANY_TIME_MS)
            for limit_ms in (self.message_timestamp_before_max_ms, self.message_timestamp_after_max_ms)
        )
        derive("timestamp_before_max_ms", before_ms)
        derive("timestamp_after_max_ms", after_ms)
        # The active segment is never compacted, so it must not stay active for longer than compaction may lag.
        lag_ms = self.max_compaction_lag_ms if self.is_compacted else self.segment_ms
        derive("roll_ms", min(self.segment_ms, lag_ms))
        derive("stored_codec", _CODECS.get(self.compression_type))

    @property
    def is_deleted_by_retention(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compression_level(self) -> int | None:
        """The level for `stored_codec`; None if that codec has no levels."""
        match self.compression_type:
            case "gzip":
                return self.compression_gzip_level
            case "lz4":
                return self.compression_lz4_level
            case "zstd":
                return self.compression_zstd_level
            case _:
                return None

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str], broker: TopicDefaults) -> Self:
        """The settings of a topic that sets `overrides` itself and inherits the rest from the broker."""
        config = cls(**broker.resolve(cls, overrides, "topic"))
        config.check()
        return config

    def check(self) -> None:
        """Refuse values that contradict each other, and features that do not exist yet."""
        if self.remote_storage_enable:
            raise ConfigError("remote.storage.enable: true is refused because there is no tiered storage yet")
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms}) is more than max.compaction.lag.ms "
                f"({self.max_compaction_lag_ms})"
            )
        _check_local("retention.ms", self.local_retention_ms, self.retention_ms)
        _check_local("retention.bytes", self.local_retention_bytes, self.retention_bytes)


def describe(overrides: Mapping[str, str], broker: TopicDefaults) -> list[ConfigEntry]:
    """The settings, as DescribeConfigs shows them, of a topic that sets `overrides` itself."""
    return broker.entries(TopicConfig, overrides, ConfigSource.DYNAMIC_TOPIC)


def _check_local(name: str, local: int, whole: int) -> None:
    """Refuse local retention above the topic's own: -1 is no limit, and -2 follows the topic."""
    if local != -2 and whole != -1 and (local == -1 or local > whole):
        raise ConfigError(f"local.{name} ({local}) is more than {name} ({whole})")
