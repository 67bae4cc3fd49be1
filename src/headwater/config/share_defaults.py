"""The broker settings of share groups and of the topic that holds their state, under the names that Kafka gives them.

As in Kafka, they are read when the broker starts; settings that may change later are set per group (`config/group.py`).
"""

from headwater.config.broker_settings import NO_EFFECT, BrokerSettings, broker_settings_class
from headwater.config.declaration import BOOLEAN, INT, LIST, STRING, setting
from headwater.errors import ConfigError

# Settings of groups that the broker bounds by its own `group.share.min.` and `group.share.max.` settings.
BOUNDED = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "record.lock.duration.ms",
    "delivery.count.limit",
    "partition.max.record.locks",
)


@broker_settings_class
class ShareDefaults(BrokerSettings):
    # Members
    group_share_session_timeout_ms: int = setting(
        INT,
        "group.share.session.timeout.ms",
        45_000,
        "How long a member of a share group may be silent before it is taken to be gone.",
        minimum=1,
    )
    group_share_min_session_timeout_ms: int = setting(
        INT,
        "group.share.min.session.timeout.ms",
        45_000,
        "The shortest session timeout that may be set for a share group.",
        minimum=1,
    )
    group_share_max_session_timeout_ms: int = setting(
        INT,
        "group.share.max.session.timeout.ms",
        60_000,
        "The longest session timeout that may be set for a share group.",
        minimum=1,
    )
    group_share_heartbeat_interval_ms: int = setting(
        INT,
        "group.share.heartbeat.interval.ms",
        5000,
        "How often the members of a share group are told to send a heartbeat.",
        minimum=1,
    )
    group_share_min_heartbeat_interval_ms: int = setting(
        INT,
        "group.share.min.heartbeat.interval.ms",
        5000,
        "The shortest heartbeat interval that may be set for a share group.",
        minimum=1,
    )
    group_share_max_heartbeat_interval_ms: int = setting(
        INT,
        "group.share.max.heartbeat.interval.ms",
        15_000,
        "The longest heartbeat interval that may be set for a share group.",
        minimum=1,
    )
    group_share_max_size: int = setting(
        INT, "group.share.max.size", 200, "How many members a share group may have.", minimum=1, maximum=1000
    )
    group_share_assignors: tuple[str, ...] = setting(
        LIST,
        "group.share.assignors",
        ("simple",),
        "The assignor of share groups: simple gives each member about as many partitions, and a partition to several "
        "members if there are more members than partitions.",
        allowed=("simple",),
    )
    group_share_max_share_sessions: int = setting(
        INT,
        "group.share.max.share.sessions",
        2000,
        "How many members of share groups may fetch from the broker at a time.",
        minimum=1,
    )

    # Records
    group_share_record_lock_duration_ms: int = setting(
        INT,
        "group.share.record.lock.duration.ms",
        30_000,
        "How long a member of a share group holds the records that it was given, before others may have them.",
        minimum=1000,
        maximum=3_600_000,
    )
    group_share_min_record_lock_duration_ms: int = setting(
        INT,
        "group.share.min.record.lock.duration.ms",
        15_000,
        "The shortest lock that may be set for a share group.",
        minimum=1000,
        maximum=30_000,
    )
    group_share_max_record_lock_duration_ms: int = setting(
        INT,
        "group.share.max.record.lock.duration.ms",
        60_000,
        "The longest lock that may be set for a share group.",
        minimum=30_000,
        maximum=3_600_000,
    )
    group_share_delivery_count_limit: int = setting(
        INT,
        "group.share.delivery.count.limit",
        5,
        "How often a record is delivered to members of a share group before it leaves the queue.",
        minimum=2,
        maximum=10,
    )
    group_share_min_delivery_count_limit: int = setting(
        INT,
        "group.share.min.delivery.count.limit",
        2,
        "The lowest number of deliveries that may be set for a share group.",
        minimum=2,
        maximum=5,
    )
    group_share_max_delivery_count_limit: int = setting(
        INT,
        "group.share.max.delivery.count.limit",
        10,
        "The highest number of deliveries that may be set for a share group.",
        minimum=5,
        maximum=25,
    )
    group_share_partition_max_record_locks: int = setting(
        INT,
        "group.share.partition.max.record.locks",
        2000,
        "How many records of a partition may be under way in a share group: given to members and not done with.",
        minimum=100,
        maximum=10_000,
    )
    group_share_min_partition_max_record_locks: int = setting(
        INT,
        "group.share.min.partition.max.record.locks",
        100,
        "The lowest number of records under way that may be set for a share group.",
        minimum=100,
        maximum=2000,
    )
    group_share_max_partition_max_record_locks: int = setting(
        INT,
        "group.share.max.partition.max.record.locks",
        4000,
        "The highest number of records under way that may be set for a share group.",
        minimum=2000,
        maximum=10_000,
    )

    # Dead letters
    errors_deadletterqueue_auto_create_topics_enable: bool = setting(
        BOOLEAN,
        "errors.deadletterqueue.auto.create.topics.enable",
        True,
        "Whether the dead-letter topic of a share group is created when it is first needed. (Kafka's default is "
        "false.)",
        dynamic=True,
    )
    errors_deadletterqueue_topic_name_prefix: str = setting(
        STRING,
        "errors.deadletterqueue.topic.name.prefix",
        "dlq.",
        "How the name of a dead-letter topic that a share group chooses must begin; empty allows every name. The "
        "default name, that of the record's topic with .dlq behind it, is always allowed.",
        dynamic=True,
    )

    # The topic that holds the state of share groups
    share_coordinator_state_topic_num_partitions: int = setting(
        INT,
        "share.coordinator.state.topic.num.partitions",
        50,
        "How many partitions __share_group_state gets when it is created; a later change has no effect.",
        minimum=1,
        maximum=10_000,
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        INT,
        "share.coordinator.state.topic.segment.bytes",
        16_777_216,
        "The size at which a segment of __share_group_state is closed; closed ones are deleted once newer snapshots "
        "have all that they have. (Kafka's default is 100 MiB.)",
        minimum=14,
    )
    share_coordinator_state_topic_replication_factor: int = setting(
        INT,
        "share.coordinator.state.topic.replication.factor",
        1,
        f"How many replicas __share_group_state has. (Kafka's default is 3.) {NO_EFFECT}",
        minimum=1,
        maximum=32_767,
    )
    share_coordinator_state_topic_min_isr: int = setting(
        INT,
        "share.coordinator.state.topic.min.isr",
        1,
        f"How many replicas of __share_group_state must have a write. (Kafka's default is 2.) {NO_EFFECT}",
        minimum=1,
        maximum=32_767,
    )
    share_coordinator_state_topic_compression_codec: int = setting(
        INT,
        "share.coordinator.state.topic.compression.codec",
        0,
        "The compression of __share_group_state: 0 is none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        minimum=0,
        maximum=4,
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        INT,
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "After how many updates the whole state of a share-partition is written.",
        minimum=0,
        maximum=500,
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        INT,
        "share.coordinator.state.topic.prune.interval.ms",
        300_000,
        "How often __share_group_state is looked over for records that newer snapshots have replaced.",
        minimum=1,
    )

    # A bound that Kafka lacks
    headwater_share_partitions_max: int = setting(
        INT,
        "headwater.share.partitions.max",
        100_000,
        "How many partitions all share groups together may read, a partition counting for each of its groups.",
        minimum=1,
    )

    def check(self) -> None:
        super().check()
        for kind in BOUNDED:
            least, value, most = (self._number(f"group.share.{bound}{kind}") for bound in ("min.", "", "max."))
            if not least <= value <= most:
                raise ConfigError(
                    f"group.share.{kind} ({value}) is not between group.share.min.{kind} ({least}) and "
                    f"group.share.max.{kind} ({most})"
                )
        if self.group_share_heartbeat_interval_ms >= self.group_share_session_timeout_ms:
            raise ConfigError(
                f"group.share.heartbeat.interval.ms ({self.group_share_heartbeat_interval_ms}) is not less than "
                f"group.share.session.timeout.ms ({self.group_share_session_timeout_ms}), so members would be taken to "
                "be gone between two heartbeats"
            )

    def _number(self, name: str) -> int:
        value = self.value_of(name)
        assert isinstance(value, int)
        return value
