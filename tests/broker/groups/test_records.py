"""Group events as records: round trips, old versions of Kafka, and one clear error for damaged records."""

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.broker.groups.log import DamagedGroups, GroupFormat
from headwater.coordination.groups.classic.events import (
    ClassicGroupForgotten,
    GenerationStored,
    StoredMember,
    SupportedProtocol,
)
from headwater.coordination.groups.consumer.events import (
    ClassicDetails,
    ConsumerGroupForgotten,
    ConsumerGroupStored,
    CurrentForgotten,
    CurrentStored,
    MemberForgotten,
    MemberState,
    MemberStored,
    RegexForgotten,
    RegexResolved,
    TargetEpochForgotten,
    TargetEpochStored,
    TargetForgotten,
    TargetStored,
)
from headwater.coordination.groups.events import Event
from headwater.coordination.groups.offsets.events import (
    CommittedOffset,
    OffsetCommitted,
    OffsetForgotten,
    TransactionalOffsetCommitted,
    TransactionEnded,
)
from headwater.coordination.groups.share.events import (
    ShareCurrentForgotten,
    ShareCurrentStored,
    ShareGroupForgotten,
    ShareGroupStored,
    ShareMemberForgotten,
    ShareMemberStored,
    ShareTargetEpochForgotten,
    ShareTargetEpochStored,
    ShareTargetForgotten,
    ShareTargetStored,
)
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicId, TopicName
from headwater.protocol.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartitions,
)
from headwater.protocol.stored.group_metadata import GroupMetadataValue, MemberMetadata
from headwater.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from headwater.protocol.stored.record import write_key, write_value
from headwater.protocol.wire.codec import encode

FORMAT = GroupFormat()
GROUP, MEMBER, TOPIC = GroupId("g"), MemberId("m"), TopicName("t")
ONE = TopicId(UUID(int=1))

texts = st.text(max_size=10)
optional_texts = st.none() | texts
groups, members, topics = texts.map(GroupId), texts.map(MemberId), texts.map(TopicName)
int32s, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
timestamps = st.integers(0, 2**62)
topic_ids = st.just(NO_TOPIC_ID) | st.uuids().map(TopicId)
topic_sets = st.frozensets(topics, max_size=4)
blobs = st.binary(max_size=10)
partitions = st.integers(0, 2**31 - 1)
assignments = st.dictionaries(topic_ids, st.frozensets(partitions, min_size=1, max_size=4), max_size=3)
protocols = st.lists(st.builds(SupportedProtocol, texts, blobs), max_size=3).map(tuple)
# Around the length at which a varint takes its second byte.
metadata = texts | st.text(alphabet="aä", min_size=60, max_size=140)
committed = st.builds(CommittedOffset, int64s, int32s, metadata, timestamps, st.just(-1), topic_ids)
expiring = st.builds(CommittedOffset, int64s, st.just(-1), metadata, timestamps, timestamps, st.just(NO_TOPIC_ID))
stored_members = st.builds(StoredMember, members, optional_texts, texts, texts, partitions, partitions, blobs, blobs)
generations = st.builds(
    GenerationStored,
    groups,
    texts,
    int32s,
    optional_texts,
    st.none() | members,
    timestamps,
    st.lists(stored_members, max_size=3),
)
member_events = st.builds(
    MemberStored,
    groups,
    members,
    optional_texts,
    optional_texts,
    texts,
    texts,
    topic_sets,
    optional_texts,
    int32s,
    optional_texts,
    st.none() | st.builds(ClassicDetails, int32s, protocols),
)
currents = st.builds(
    CurrentStored, groups, members, int32s, int32s, st.sampled_from(MemberState), assignments, assignments
)
EVENTS: dict[type[Event], st.SearchStrategy[Event]] = {
    OffsetCommitted: st.builds(OffsetCommitted, groups, topics, int32s, committed | expiring),
    OffsetForgotten: st.builds(OffsetForgotten, groups, topics, int32s),
    GenerationStored: generations,
    ClassicGroupForgotten: st.builds(ClassicGroupForgotten, groups),
    ConsumerGroupStored: st.builds(ConsumerGroupStored, groups, int32s, int64s),
    ConsumerGroupForgotten: st.builds(ConsumerGroupForgotten, groups),
    MemberStored: member_events,
    MemberForgotten: st.builds(MemberForgotten, groups, members),
    TargetEpochStored: st.builds(TargetEpochStored, groups, int32s, int64s),
    TargetEpochForgotten: st.builds(TargetEpochForgotten, groups),
    TargetStored: st.builds(TargetStored, groups, members, assignments),
    TargetForgotten: st.builds(TargetForgotten, groups, members),
    CurrentStored: currents,
    CurrentForgotten: st.builds(CurrentForgotten, groups, members),
    RegexResolved: st.builds(RegexResolved, groups, texts, topic_sets, int64s, int64s),
    RegexForgotten: st.builds(RegexForgotten, groups, texts),
    ShareGroupStored: st.builds(ShareGroupStored, groups, int32s, int64s),
    ShareGroupForgotten: st.builds(ShareGroupForgotten, groups),
    ShareMemberStored: st.builds(ShareMemberStored, groups, members, optional_texts, texts, texts, topic_sets),
    ShareMemberForgotten: st.builds(ShareMemberForgotten, groups, members),
    ShareTargetEpochStored: st.builds(ShareTargetEpochStored, groups, int32s, int64s),
    ShareTargetEpochForgotten: st.builds(ShareTargetEpochForgotten, groups),
    ShareTargetStored: st.builds(ShareTargetStored, groups, members, assignments),
    ShareTargetForgotten: st.builds(ShareTargetForgotten, groups, members),
    ShareCurrentStored: st.builds(ShareCurrentStored, groups, members, int32s, int32s, assignments),
    ShareCurrentForgotten: st.builds(ShareCurrentForgotten, groups, members),
}
FORGETS: dict[type[Event], type[Event]] = {
    OffsetCommitted: OffsetForgotten,
    GenerationStored: ClassicGroupForgotten,
    ConsumerGroupStored: ConsumerGroupForgotten,
    ShareGroupStored: ShareGroupForgotten,
    ShareMemberStored: ShareMemberForgotten,
    ShareTargetEpochStored: ShareTargetEpochForgotten,
    ShareTargetStored: ShareTargetForgotten,
    ShareCurrentStored: ShareCurrentForgotten,
    MemberStored: MemberForgotten,
    TargetEpochStored: TargetEpochForgotten,
    TargetStored: TargetForgotten,
    CurrentStored: CurrentForgotten,
    RegexResolved: RegexForgotten,
}
each_event = pytest.mark.parametrize("event_class", EVENTS, ids=lambda event_class: event_class.__name__)
each_stored = pytest.mark.parametrize("event_class", FORGETS, ids=lambda event_class: event_class.__name__)


def test_every_event_has_its_record() -> None:
    # Events of transactions have no records of their own: they follow from the batches.
    assert {*EVENTS, TransactionalOffsetCommitted, TransactionEnded} == set(Event.__args__)


@given(EVENTS[OffsetCommitted])
def test_an_offset_inside_a_transaction_has_the_record_of_any_other(event: Event) -> None:
    assert isinstance(event, OffsetCommitted)
    assert FORMAT.encode(TransactionalOffsetCommitted(ProducerId(7), 1, *event)) == FORMAT.encode(event)


@each_event
@settings(max_examples=30)
@given(data=st.data())
def test_events_survive_a_round_trip(data: st.DataObject, event_class: type[Event]) -> None:
    event = data.draw(EVENTS[event_class])
    key, value = FORMAT.encode(event)

    read = FORMAT.decode(key, value)

    assert type(read) is event_class
    assert read == event
    assert (value is None) == (event_class in FORGETS.values())


@each_stored
@settings(max_examples=30)
@given(data=st.data())
def test_a_tombstone_has_the_key_of_the_record_it_deletes(data: st.DataObject, event_class: type[Event]) -> None:
    key, _ = FORMAT.encode(data.draw(EVENTS[event_class]))

    forgotten = FORMAT.decode(key, None)

    assert forgotten is not None
    assert type(forgotten) is FORGETS[event_class]
    assert FORMAT.encode(forgotten) == (key, None)


@given(EVENTS[OffsetCommitted])
def test_hand_packed_offsets_equal_those_encoded_by_the_schema(event: OffsetCommitted) -> None:
    key = OffsetCommitKey(group=event.group_id, topic=event.topic, partition=event.partition)
    offset = event.committed
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp_ms,
        expire_timestamp=offset.expire_timestamp_ms,
        topic_id=offset.topic_id,
    )
    version = 4 if offset.expire_timestamp_ms == -1 else 1

    assert FORMAT.encode(event) == (write_key(key), write_value(value, version))


def test_an_offset_with_the_length_of_a_plain_one_is_decoded_by_its_schema() -> None:
    plain = OffsetCommitted(GROUP, TOPIC, 3, CommittedOffset(5, 6, "", 7, -1, ONE))
    other = plain._replace(committed=CommittedOffset(5, 6, "18 characters long", 7, -1, NO_TOPIC_ID))
    records = [FORMAT.encode(event) for event in (plain, other)]

    assert len({len(value or b"") for _, value in records}) == 1
    assert [FORMAT.decode(key, value) for key, value in records] == [plain, other]


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", range(5))
def test_offsets_are_read_in_every_version_of_kafka(key_type: int, version: int) -> None:
    stored = OffsetCommitValue(
        offset=5, leader_epoch=6, metadata="m", commit_timestamp=7, expire_timestamp=8, topic_id=ONE
    )
    key = OffsetCommitKey(group=GROUP, topic=TOPIC, partition=3)

    read = FORMAT.decode(key_type.to_bytes(2, "big") + encode(key, 0), write_value(stored, version))

    expected = CommittedOffset(
        offset=5,
        leader_epoch=6 if version >= 3 else -1,
        metadata="m",
        commit_timestamp_ms=7,
        expire_timestamp_ms=8 if version == 1 else -1,
        topic_id=ONE if version >= 4 else NO_TOPIC_ID,
    )
    assert read == OffsetCommitted(GROUP, TOPIC, 3, expected)


@pytest.mark.parametrize("version", range(5))
def test_classic_groups_are_read_in_every_version_of_kafka(version: int) -> None:
    member = MemberMetadata(
        member_id=MEMBER,
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=50,
        session_timeout=10,
        subscription=b"s",
        assignment=b"a",
    )
    stored = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader=MEMBER,
        current_state_timestamp=9,
        members=[member],
    )
    key, _ = FORMAT.encode(ClassicGroupForgotten(GROUP))

    read = FORMAT.decode(key, write_value(stored, version))

    # Versions without a rebalance time-out used the session time-out for it.
    timeouts = (50 if version >= 1 else 10, 10)
    instance_id = "i" if version >= 3 else None
    assert read == GenerationStored(
        GROUP,
        "consumer",
        4,
        "range",
        MEMBER,
        9 if version >= 2 else -1,
        [StoredMember(MEMBER, instance_id, "c", "/h", *timeouts, b"s", b"a")],
    )


@pytest.mark.parametrize("key_type", [4, 9, 15, 17, 32767, -1])
@pytest.mark.parametrize("value", [None, b"", b"\x00\x00anything"])
def test_records_of_unknown_kinds_are_skipped(key_type: int, value: bytes | None) -> None:
    assert FORMAT.decode(key_type.to_bytes(2, "big", signed=True) + b"anything", value) is None


def test_a_stored_assignment_leaves_out_topics_without_partitions() -> None:
    key, _ = FORMAT.encode(TargetForgotten(GROUP, MEMBER))
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[TopicPartitions(topic_id=ONE, partitions=[])])

    assert FORMAT.decode(key, write_value(value, 0)) == TargetStored(GROUP, MEMBER, {})


def test_an_undefined_member_state_is_read_as_unknown() -> None:
    key, _ = FORMAT.encode(CurrentForgotten(GROUP, MEMBER))
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1, previous_member_epoch=0, state=77, assigned_partitions=[], partitions_pending_revocation=[]
    )

    assert FORMAT.decode(key, write_value(value, 0)) == CurrentStored(GROUP, MEMBER, 1, 0, MemberState.UNKNOWN)


OFFSET_KEY, OFFSET_VALUE = FORMAT.encode(OffsetCommitted(GROUP, TOPIC, 3, CommittedOffset(5, 6, "m", 7)))
assert OFFSET_VALUE is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00", OFFSET_VALUE),
        (OFFSET_KEY[:-1], OFFSET_VALUE),
        (OFFSET_KEY + b"\x00", None),
        (OFFSET_KEY, b""),
        (OFFSET_KEY, b"\x00"),
        (OFFSET_KEY, OFFSET_VALUE[:-1]),
        (OFFSET_KEY, OFFSET_VALUE + b"\x00"),
        (OFFSET_KEY, b"\x00\x05" + OFFSET_VALUE[2:]),
        (OFFSET_KEY, b"\xff\xff" + OFFSET_VALUE[2:]),
        (b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x00", None),
    ],
)
def test_an_unreadable_record_raises_one_clear_error(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DamagedGroups, match="is not understood"):
        FORMAT.decode(key, value)


@each_stored
@settings(max_examples=30)
@given(data=st.data())
def test_a_damaged_record_is_decoded_or_refused(data: st.DataObject, event_class: type[Event]) -> None:
    key, value = FORMAT.encode(data.draw(EVENTS[event_class]))
    assert value is not None
    damaged = bytearray(value)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DamagedGroups):
        FORMAT.decode(key, bytes(damaged))
