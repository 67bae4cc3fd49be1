"""A consumer group (KIP-848): the group, its members, the target assignment and the current one of each member."""

from uuid import UUID

from headwater.protocol.stored.record import Key
from headwater.protocol.wire.codec import Data, Struct, field, int8, int32, int64


class ConsumerGroupMetadataKey(Key, record_type=3):
    group_id: str


class ConsumerGroupMetadataValue(Data, versions="0", flexible="0+"):
    epoch: int32
    metadata_hash: int64 = field(tag=0, default=0)


class ConsumerGroupMemberMetadataKey(Key, record_type=5):
    group_id: str
    member_id: str


class ClassicProtocol(Struct):
    name: str
    metadata: bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32
    supported_protocols: list[ClassicProtocol]


class ConsumerGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int32 = -1
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(Key, record_type=6):
    group_id: str


class ConsumerGroupTargetAssignmentMetadataValue(Data, versions="0", flexible="0+"):
    assignment_epoch: int32
    assignment_timestamp: int64 = field(tag=0, default=0)


class TopicPartitions(Struct):
    topic_id: UUID
    partitions: list[int32]


class ConsumerGroupTargetAssignmentMemberKey(Key, record_type=7):
    group_id: str
    member_id: str


class ConsumerGroupTargetAssignmentMemberValue(Data, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions]


class ConsumerGroupCurrentMemberAssignmentKey(Key, record_type=8):
    group_id: str
    member_id: str


class ConsumerGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


class ConsumerGroupRegularExpressionKey(Key, record_type=16):
    group_id: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(Data, versions="0", flexible="0+"):
    topics: list[str]
    version: int64
    timestamp: int64
