"""ShareGroupDescribe (key 77), v1."""

from uuid import UUID

from headwater.protocol.messages.topics.metadata import NO_AUTHORIZED_OPERATIONS
from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class ShareGroupDescribeRequest(Request, key=77, versions="1", flexible="0+"):
    group_ids: list[str]
    include_authorized_operations: bool


class TopicPartitions(Struct):
    topic_id: UUID
    topic_name: str
    partitions: list[int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class Member(Struct):
    member_id: str
    rack_id: str | None = None
    member_epoch: int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    assignment: Assignment


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: str = ""
    members: list[Member] = field()
    authorized_operations: int32 = NO_AUTHORIZED_OPERATIONS


class ShareGroupDescribeResponse(Response, key=77, versions="1", flexible="0+"):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup]
