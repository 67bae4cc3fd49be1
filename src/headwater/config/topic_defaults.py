"""The broker settings that a topic falls back to, under the names that Kafka gives them on a broker.

Type, default, bounds and documentation of a topic setting are declared here once; `config/topic.py` refers to them.
"""

from headwater.config.broker_settings import NO_EFFECT, BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, DOUBLE, INT, INT64_MAX, LIST, LONG, STRING, setting


@broker_settings_class
class TopicDefaults(BrokerSettings):
    log_cleanup_policy: frozenset[str] = setting(
        LIST,
        "log.cleanup.policy",
        frozenset({"delete"}),
        "What happens to old segments: delete drops them by age or size, compact keeps the latest record of each key, "
        "both together do both, and an empty list keeps everything.",
        allowed=("compact", "delete"),
        dynamic=True,
    )
    compression_type: str = setting(
        STRING,
        "compression.type",
        "producer",
        "The compression in which batches are stored; producer keeps whatever the producer chose.",
        allowed=("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"),
        dynamic=True,
    )
    compression_gzip_level: int = setting(
        INT,
        "compression.gzip.level",
        -1,
        "The level used where compression.type is gzip; -1 leaves it to the library.",
        minimum=1,
        maximum=9,
        also=(-1,),
        dynamic=True,
    )
    compression_lz4_level: int = setting(
        INT,
        "compression.lz4.level",
        9,
        "The level used where compression.type is lz4.",
        minimum=1,
        maximum=17,
        dynamic=True,
    )
    compression_zstd_level: int = setting(
        INT,
        "compression.zstd.level",
        3,
        "The level used where compression.type is zstd.",
        minimum=-131_072,
        maximum=22,
        dynamic=True,
    )
    log_cleaner_delete_retention_ms: int = setting(
        LONG,
        "log.cleaner.delete.retention.ms",
        86_400_000,
        "How long a compacted log keeps tombstones, and so how long a reader that starts at the beginning may take "
        "before it can miss a deletion.",
        minimum=0,
        dynamic=True,
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        DOUBLE,
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "The share of a compacted log that must be uncompacted before it is compacted again.",
        minimum=0,
        maximum=1,
        dynamic=True,
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        LONG,
        "log.cleaner.min.compaction.lag.ms",
        0,
        "The shortest time for which a record stays uncompacted.",
        minimum=0,
        dynamic=True,
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG,
        "log.cleaner.max.compaction.lag.ms",
        INT64_MAX,
        "The longest time for which a record stays out of compaction, however little of the log is dirty.",
        minimum=1,
        dynamic=True,
    )
    log_segment_delete_delay_ms: int = setting(
        LONG,
        "log.segment.delete.delay.ms",
        60_000,
        "How long the file of a deleted segment stays on disk, renamed, for readers that are still in it.",
        minimum=0,
        dynamic=True,
    )
    headwater_flush: str = setting(
        STRING,
        "headwater.flush",
        "ack",
        "When acknowledged records are on disk: ack before acks=all is answered, interval within "
        "headwater.flush.interval.ms, os whenever the operating system chooses, as in Kafka.",
        allowed=("ack", "interval", "os"),
        dynamic=True,
    )
    log_flush_interval_messages: int = setting(
        LONG,
        "log.flush.interval.messages",
        INT64_MAX,
        "Flushes a log to disk after this many records, beside what headwater.flush asks for.",
        minimum=1,
        dynamic=True,
    )
    log_flush_interval_ms: int | None = setting(
        LONG,
        "log.flush.interval.ms",
        None,
        "Flushes a log to disk once a record has waited this long, beside what headwater.flush asks for.",
        minimum=0,
        dynamic=True,
    )
    log_flush_scheduler_interval_ms: int = setting(
        LONG,
        "log.flush.scheduler.interval.ms",
        INT64_MAX,
        "Stands in for log.flush.interval.ms where that is unset.",
        minimum=0,
        dynamic=True,
    )
    log_index_interval_bytes: int = setting(
        INT,
        "log.index.interval.bytes",
        4096,
        "About how many bytes of log lie between two index entries.",
        minimum=0,
        dynamic=True,
    )
    log_index_size_max_bytes: int = setting(
        INT,
        "log.index.size.max.bytes",
        10_485_760,
        "The largest size of a segment's offset index; a full index closes the segment.",
        minimum=4,
        dynamic=True,
    )
    log_local_retention_bytes: int = setting(
        LONG,
        "log.local.retention.bytes",
        -2,
        "The size of a partition's local segments under tiered storage; -2 takes the retention in bytes, -1 is no "
        f"limit. {NO_EFFECT}",
        minimum=-2,
        dynamic=True,
    )
    log_local_retention_ms: int = setting(
        LONG,
        "log.local.retention.ms",
        -2,
        f"The age of local segments under tiered storage; -2 takes the retention time, -1 is no limit. {NO_EFFECT}",
        minimum=-2,
        dynamic=True,
    )
    message_max_bytes: int = setting(
        INT,
        "message.max.bytes",
        1_048_588,
        "The largest record batch accepted, in the form in which it is sent (after compression).",
        minimum=0,
        dynamic=True,
    )
    log_message_timestamp_after_max_ms: int = setting(
        LONG,
        "log.message.timestamp.after.max.ms",
        3_600_000,
        "How far a record's CreateTime may lie in the future before its batch is refused.",
        minimum=0,
        dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG,
        "log.message.timestamp.before.max.ms",
        INT64_MAX,
        "How far a record's CreateTime may lie in the past before its batch is refused.",
        minimum=0,
        dynamic=True,
    )
    log_message_timestamp_type: str = setting(
        STRING,
        "log.message.timestamp.type",
        "CreateTime",
        "Whose time a record carries: the producer's (CreateTime) or the broker's (LogAppendTime).",
        allowed=("CreateTime", "LogAppendTime"),
        dynamic=True,
    )
    min_insync_replicas: int = setting(
        INT,
        "min.insync.replicas",
        1,
        "How many replicas must have a record before acks=all is answered.",
        minimum=1,
        dynamic=True,
    )
    log_preallocate: bool = setting(
        BOOLEAN,
        "log.preallocate",
        False,
        f"Whether a new segment reserves its whole size on disk. {NO_EFFECT}",
        dynamic=True,
    )
    log_retention_bytes: int = setting(
        LONG,
        "log.retention.bytes",
        -1,
        "The size of a partition beyond which its oldest segments are deleted; -1 is no limit.",
        minimum=-1,
        dynamic=True,
    )
    log_retention_ms: int | None = setting(
        LONG,
        "log.retention.ms",
        None,
        "The age beyond which segments are deleted; -1 is no limit.",
        minimum=1,
        also=(-1,),
        dynamic=True,
    )
    log_retention_minutes: int | None = setting(
        INT,
        "log.retention.minutes",
        None,
        "Stands in, counted in minutes, for log.retention.ms where that is unset.",
        minimum=1,
        also=(-1,),
        dynamic=True,
    )
    log_retention_hours: int = setting(
        INT,
        "log.retention.hours",
        168,
        "Stands in, counted in hours, for log.retention.ms and log.retention.minutes where those are unset.",
        minimum=1,
        also=(-1,),
        dynamic=True,
    )
    log_segment_bytes: int = setting(
        INT,
        "log.segment.bytes",
        1_073_741_824,
        "The size at which a segment is closed and the next one begun. (Kafka 4 asks for at least 1 MiB.)",
        minimum=14,
        dynamic=True,
    )
    log_roll_ms: int | None = setting(
        LONG,
        "log.roll.ms",
        None,
        "The age at which a segment is closed though it is not full, so that it can be deleted or compacted.",
        minimum=1,
        dynamic=True,
    )
    log_roll_hours: int = setting(
        INT,
        "log.roll.hours",
        168,
        "Stands in, counted in hours, for log.roll.ms where that is unset.",
        minimum=1,
        dynamic=True,
    )
    log_roll_jitter_ms: int | None = setting(
        LONG,
        "log.roll.jitter.ms",
        None,
        "The most that is taken at random off the age at which a segment is closed, so that segments do not all roll "
        "at once.",
        minimum=0,
        dynamic=True,
    )
    log_roll_jitter_hours: int = setting(
        INT,
        "log.roll.jitter.hours",
        0,
        "Stands in, counted in hours, for log.roll.jitter.ms where that is unset.",
        minimum=0,
        dynamic=True,
    )
    unclean_leader_election_enable: bool = setting(
        BOOLEAN,
        "unclean.leader.election.enable",
        False,
        f"Whether a replica that lags behind may become leader as a last resort, losing records. {NO_EFFECT}",
        dynamic=True,
    )
    headwater_key_schema_validation: str = setting(
        STRING,
        "headwater.key.schema.validation",
        "none",
        "Whether keys of produced records must follow a schema: id asks for the number of a schema of the right "
        "subject in front of the key, full also decodes the key. It takes a registry (headwater.schemas.enable).",
        allowed=("none", "id", "full"),
        dynamic=True,
    )
    headwater_value_schema_validation: str = setting(
        STRING,
        "headwater.value.schema.validation",
        "none",
        "Whether values of produced records must follow a schema, as headwater.key.schema.validation for keys. Null "
        "values pass.",
        allowed=("none", "id", "full"),
        dynamic=True,
    )
    headwater_key_subject_name_strategy: str = setting(
        STRING,
        "headwater.key.subject.name.strategy",
        "topic",
        "The subject that the schemas of keys must belong to: TOPIC-key (topic), the name of the record type (record), "
        "or both with a hyphen between them (topic-record).",
        allowed=("topic", "record", "topic-record"),
        dynamic=True,
    )
    headwater_value_subject_name_strategy: str = setting(
        STRING,
        "headwater.value.subject.name.strategy",
        "topic",
        "The subject that the schemas of values must belong to: TOPIC-value (topic), the name of the record type "
        "(record), or both with a hyphen between them (topic-record).",
        allowed=("topic", "record", "topic-record"),
        dynamic=True,
    )
