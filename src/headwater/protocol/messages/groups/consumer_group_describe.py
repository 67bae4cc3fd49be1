"""ConsumerGroupDescribe (key 69), v0-1: v1 says which protocol a member speaks."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32

# In place of a bit field of allowed operations: the client did not ask for them.
NO_AUTHORIZED_OPERATIONS = -(2**31)


class ConsumerGroupDescribeRequest(Request, key=69, versions="0-1", flexible="0+"):
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
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    # -1 is unknown, 0 the classic protocol, 1 the consumer protocol.
    member_type: int8 = field(versions="1+", default=-1)


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


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup]
