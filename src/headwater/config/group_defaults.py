"""The broker settings of groups and committed offsets, under the names that Kafka gives them on a broker.

As in Kafka, they are read when the broker starts; settings that may change later are set per group (`config/group.py`).
"""

from headwater.config.broker_settings import NO_EFFECT, broker_settings_class
from headwater.config.declaration import INT, INT32_MAX, LIST, LONG, STRING, setting
from headwater.config.share_defaults import ShareDefaults
from headwater.errors import ConfigError


@broker_settings_class
class GroupDefaults(ShareDefaults):
    # Groups of the classic protocol
    group_min_session_timeout_ms: int = setting(
        INT,
        "group.min.session.timeout.ms",
        6000,
        "The shortest session that a member of a classic group may ask for.",
        minimum=1,
    )
    group_max_session_timeout_ms: int = setting(
        INT,
        "group.max.session.timeout.ms",
        1_800_000,
        "The longest session that a member of a classic group may ask for.",
        minimum=1,
    )
    group_initial_rebalance_delay_ms: int = setting(
        INT,
        "group.initial.rebalance.delay.ms",
        3000,
        "How long the first rebalance of an empty classic group waits for more members to join.",
        minimum=0,
    )
    group_max_size: int = setting(
        INT, "group.max.size", INT32_MAX, "How many members a classic group may have.", minimum=1
    )

    # Groups of the consumer protocol (KIP-848)
    group_consumer_session_timeout_ms: int = setting(
        INT,
        "group.consumer.session.timeout.ms",
        45_000,
        "How long a member of a consumer group may be silent before it is taken to be gone.",
        minimum=1,
    )
    group_consumer_min_session_timeout_ms: int = setting(
        INT,
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The shortest session timeout that may be set for a consumer group.",
        minimum=1,
    )
    group_consumer_max_session_timeout_ms: int = setting(
        INT,
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The longest session timeout that may be set for a consumer group.",
        minimum=1,
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        INT,
        "group.consumer.heartbeat.interval.ms",
        5000,
        "How often the members of a consumer group are told to send a heartbeat.",
        minimum=1,
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        INT,
        "group.consumer.min.heartbeat.interval.ms",
        5000,
        "The shortest heartbeat interval that may be set for a consumer group.",
        minimum=1,
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        INT,
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The longest heartbeat interval that may be set for a consumer group.",
        minimum=1,
    )
    group_consumer_max_size: int = setting(
        INT, "group.consumer.max.size", INT32_MAX, "How many members a consumer group may have.", minimum=1
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        LIST,
        "group.consumer.assignors",
        ("uniform", "range"),
        "The assignors that members of consumer groups may choose; the first is for those that choose none.",
        allowed=("uniform", "range"),
    )
    group_consumer_migration_policy: str = setting(
        STRING,
        "group.consumer.migration.policy",
        "bidirectional",
        "Which groups with members may change their protocol: upgrade turns classic groups into consumer groups, "
        "downgrade turns them back, bidirectional does both. A group without members always may.",
        allowed=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        INT,
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        "How old the topics found for a regular expression may be before it is resolved again.",
        minimum=10_000,
    )

    # Committed offsets, and the topic that holds them and the groups
    offset_metadata_max_bytes: int = setting(
        INT,
        "offset.metadata.max.bytes",
        4096,
        "The longest text that may be committed with an offset.",
        minimum=0,
    )
    offsets_retention_minutes: int = setting(
        INT,
        "offsets.retention.minutes",
        10_080,
        "How long an offset is kept after its group lost its last member, or, where members do not subscribe, after "
        "it was committed.",
        minimum=1,
    )
    offsets_retention_check_interval_ms: int = setting(
        LONG,
        "offsets.retention.check.interval.ms",
        600_000,
        "How often groups are looked over for offsets to forget.",
        minimum=1,
    )
    offsets_topic_num_partitions: int = setting(
        INT,
        "offsets.topic.num.partitions",
        50,
        "How many partitions __consumer_offsets gets when it is created; a later change has no effect.",
        minimum=1,
        maximum=10_000,
    )
    offsets_topic_segment_bytes: int = setting(
        INT,
        "offsets.topic.segment.bytes",
        16_777_216,
        "The size at which a segment of __consumer_offsets is closed; closed ones can be compacted, which bounds what "
        "a start has to read. (Kafka's default is 100 MiB.)",
        minimum=14,
    )
    offsets_topic_replication_factor: int = setting(
        INT,
        "offsets.topic.replication.factor",
        1,
        f"How many replicas __consumer_offsets has. (Kafka's default is 3.) {NO_EFFECT}",
        minimum=1,
        maximum=32_767,
    )
    offsets_topic_compression_codec: int = setting(
        INT,
        "offsets.topic.compression.codec",
        0,
        "The compression of __consumer_offsets: 0 is none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        minimum=0,
        maximum=4,
    )

    # Bounds that Kafka lacks
    headwater_groups_max: int = setting(
        INT,
        "headwater.groups.max",
        100_000,
        "How many groups the broker keeps before it refuses new ones.",
        minimum=1,
    )
    headwater_groups_memory_max_bytes: int = setting(
        LONG,
        "headwater.groups.memory.max.bytes",
        268_435_456,
        "About how much memory the members of all groups may take, with what they bring; who then comes is refused.",
        minimum=1_048_576,
    )
    headwater_group_metadata_max_bytes: int = setting(
        INT,
        "headwater.group.metadata.max.bytes",
        1_048_576,
        "The most bytes that one member of a group may bring as its subscription or, in a classic group, be given as "
        "its assignment.",
        minimum=1024,
    )

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    def check(self) -> None:
        super().check()
        self._check_order("group.min.session.timeout.ms", "group.max.session.timeout.ms")
        for kind in ("session.timeout.ms", "heartbeat.interval.ms"):
            self._check_order(f"group.consumer.min.{kind}", f"group.consumer.max.{kind}")
            self._check_order(f"group.consumer.min.{kind}", f"group.consumer.{kind}")
            self._check_order(f"group.consumer.{kind}", f"group.consumer.max.{kind}")
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                f"group.consumer.heartbeat.interval.ms ({self.group_consumer_heartbeat_interval_ms}) is not less than "
                f"group.consumer.session.timeout.ms ({self.group_consumer_session_timeout_ms}), so members would be "
                "taken to be gone between two heartbeats"
            )
        if not self.group_consumer_assignors:
            raise ConfigError("group.consumer.assignors: at least one assignor is needed")

    def _check_order(self, smaller: str, larger: str) -> None:
        least, most = self.value_of(smaller), self.value_of(larger)
        assert isinstance(least, int)
        assert isinstance(most, int)
        if least > most:
            raise ConfigError(f"{smaller} ({least}) is more than {larger} ({most})")
