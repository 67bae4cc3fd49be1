"""Classic groups as records: one record holds a generation with all of its members."""

from collections.abc import Mapping
from typing import Final

from headwater.broker.groups.formats.record import Read, StoredRecord, Write
from headwater.coordination.groups.classic.events import ClassicGroupForgotten, GenerationStored, StoredMember
from headwater.ids import GroupId, MemberId
from headwater.protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from headwater.protocol.stored.record import read_key, read_value, write_key, write_value

# What Kafka 4.2 writes; other versions are only read.
_GENERATION_VERSION: Final = 3
_NO_REBALANCE_TIMEOUT: Final = -1


def _forgotten(event: ClassicGroupForgotten) -> StoredRecord:
    return write_key(GroupMetadataKey(group=event.group_id)), None


def _generation(event: GenerationStored) -> StoredRecord:
    value = GroupMetadataValue(
        protocol_type=event.protocol_type,
        generation=event.generation,
        protocol=event.protocol,
        leader=event.leader,
        current_state_timestamp=event.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in event.members
        ],
    )
    return write_key(GroupMetadataKey(group=event.group_id)), write_value(value, _GENERATION_VERSION)


def _read_generation(key: bytes, value: bytes | None) -> GenerationStored | ClassicGroupForgotten:
    group_id = GroupId(read_key(GroupMetadataKey, key).group)
    if value is None:
        return ClassicGroupForgotten(group_id)
    read = read_value(GroupMetadataValue, value)
    return GenerationStored(
        group_id,
        read.protocol_type,
        read.generation,
        read.protocol,
        None if read.leader is None else MemberId(read.leader),
        read.current_state_timestamp,
        [_read_classic_member(member) for member in read.members],
    )


def _read_classic_member(read: MemberMetadata) -> StoredMember:
    # Old versions have only the session timeout, which was also the time that members had to rejoin.
    rebalance_timeout_ms = (
        read.session_timeout if read.rebalance_timeout == _NO_REBALANCE_TIMEOUT else read.rebalance_timeout
    )
    return StoredMember(
        MemberId(read.member_id),
        read.group_instance_id,
        read.client_id,
        read.client_host,
        rebalance_timeout_ms,
        read.session_timeout,
        read.subscription,
        read.assignment,
    )


WRITERS: Final[Mapping[type, Write]] = {
    GenerationStored: _generation,
    ClassicGroupForgotten: _forgotten,
}
READERS: Final[Mapping[int, Read]] = {GroupMetadataKey.record_type: _read_generation}
