"""A share group (KIP-932): the group, its members, the target assignment and the current one of each member."""

from headwater.protocol.stored.consumer_group import TopicPartitions
from headwater.protocol.stored.record import Key
from headwater.protocol.wire.codec import Data, field, int8, int32, int64


class ShareGroupMemberMetadataKey(Key, record_type=10):
    group_id: str
    member_id: str


class ShareGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]


class ShareGroupMetadataKey(Key, record_type=11):
    group_id: str


class ShareGroupMetadataValue(Data, versions="0", flexible="0+"):
    epoch: int32
    metadata_hash: int64


class ShareGroupTargetAssignmentMetadataKey(Key, record_type=12):
    group_id: str


class ShareGroupTargetAssignmentMetadataValue(Data, versions="0", flexible="0+"):
    assignment_epoch: int32
    assignment_timestamp: int64 = field(tag=0, default=0)


class ShareGroupTargetAssignmentMemberKey(Key, record_type=13):
    group_id: str
    member_id: str


class ShareGroupTargetAssignmentMemberValue(Data, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions]


class ShareGroupCurrentMemberAssignmentKey(Key, record_type=14):
    group_id: str
    member_id: str


class ShareGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]
