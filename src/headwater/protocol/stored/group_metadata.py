"""A classic group: v1 adds the rebalance time-out, v2 the time of the state, v3 static members, v4 is flexible."""

from headwater.protocol.stored.record import Key
from headwater.protocol.wire.codec import Data, Struct, field, int32, int64


class GroupMetadataKey(Key, record_type=2):
    group: str


class MemberMetadata(Struct):
    member_id: str
    group_instance_id: str | None = field(versions="3+")
    client_id: str
    client_host: str
    rebalance_timeout: int32 = field(versions="1+", default=-1)
    session_timeout: int32
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(Data, versions="0-4", flexible="4+"):
    protocol_type: str
    generation: int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: int64 = field(versions="2+", default=-1)
    members: list[MemberMetadata]
