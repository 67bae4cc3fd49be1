"""Settings of the broker about its logs: flushes, checkpoints, retention, compaction, producers."""

from headwater.config.broker_settings import BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, INT, LONG, STRING, setting


@broker_settings_class
class StorageSettings(BrokerSettings):
    headwater_flush_engine: str = setting(
        STRING,
        "headwater.flush.engine",
        "auto",
        "Who runs flushes: auto leaves them to the kernel's own threads (Linux AIO) where it can, "
        "which takes a third of the CPU; thread always uses a thread of the broker.",
        allowed=("auto", "thread"),
    )
    headwater_flush_interval_ms: int = setting(
        INT,
        "headwater.flush.interval.ms",
        1000,
        "How soon a record that was acknowledged with acks=1 is on disk, unless headwater.flush is os.",
        minimum=1,
        dynamic=True,
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        INT,
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often the recovery points are written, behind which a crash leaves nothing to scan.",
        minimum=1,
    )
    log_retention_check_interval_ms: int = setting(
        LONG,
        "log.retention.check.interval.ms",
        300_000,
        "How often logs are looked over for segments to delete.",
        minimum=1,
        dynamic=True,
    )
    log_initial_task_delay_ms: int = setting(
        LONG,
        "log.initial.task.delay.ms",
        30_000,
        "How long after the start retention, compaction and checkpoints begin.",
        minimum=0,
    )
    log_cleaner_enable: bool = setting(
        BOOLEAN, "log.cleaner.enable", True, "Whether logs whose policy is compact are compacted.", dynamic=True
    )
    log_cleaner_backoff_ms: int = setting(
        LONG,
        "log.cleaner.backoff.ms",
        15_000,
        "How long the cleaner rests after it found no log to compact.",
        minimum=1,
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        LONG,
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        "The memory for the keys of one compaction; a log with more keys is compacted in several rounds.",
        minimum=1_048_576,
        dynamic=True,
    )
    producer_id_expiration_ms: int = setting(
        INT,
        "producer.id.expiration.ms",
        86_400_000,
        "How long a partition remembers the sequence of a producer that has gone silent.",
        minimum=1,
        dynamic=True,
    )
    producer_id_expiration_check_interval_ms: int = setting(
        INT,
        "producer.id.expiration.check.interval.ms",
        600_000,
        "How often partitions are looked over for producers to forget.",
        minimum=1,
    )
    headwater_schedule_partitions: int = setting(
        INT,
        "headwater.schedule.partitions",
        4,
        "How many partitions __headwater_schedule gets when it is created; a later change has no effect.",
        minimum=1,
        maximum=1000,
    )
    headwater_schedule_segment_bytes: int = setting(
        INT,
        "headwater.schedule.segment.bytes",
        67_108_864,
        "The size at which a segment of __headwater_schedule is closed, and can be compacted from then on; counts when "
        "the topic is created.",
        minimum=1024,
    )
    headwater_schedule_pending_max: int = setting(
        LONG,
        "headwater.schedule.pending.max",
        5_000_000,
        "How many records of all topics may be scheduled at a time. Each takes about 80 bytes of memory.",
        minimum=1,
        dynamic=True,
    )
