"""Subscriptions and assignments, also against the bytes of two clients that write and read them on their own."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ProtocolError
from headwater.ids import TopicName
from headwater.protocol.consumer_protocol import (
    VERSIONS,
    AssignedPartitions,
    Subscription,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
    write_subscription,
)
from headwater.protocol.wire.schema import ELEMENTS_MAX

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer import metadata

A, B = TopicName("a"), TopicName("bä")
each_version = pytest.mark.parametrize("version", VERSIONS)
readers = pytest.mark.parametrize("read", [read_subscription, read_assignment])

topics = st.text(max_size=20).map(TopicName)
int32s = st.integers(-(2**31), 2**31 - 1)
user_data = st.none() | st.binary(max_size=20)
partitions = st.dictionaries(topics, st.lists(int32s, max_size=5).map(sorted), max_size=4)
subscriptions = st.builds(
    Subscription,
    st.lists(topics, max_size=5),
    user_data,
    partitions,
    int32s,
    st.none() | st.text(min_size=1, max_size=5),
)


def kafka_python_assignment(assigned: Sequence[tuple[str, Sequence[int]]], version: int) -> bytes:
    message: Any = metadata.ConsumerProtocolAssignment
    return message(assigned_partitions=assigned, user_data=b"data", version=version).encode()


def in_version(subscription: Subscription, version: int) -> Subscription:
    """The subscription with only the fields of that version."""
    return Subscription(
        subscription.topics,
        subscription.user_data,
        subscription.owned_partitions if version >= 1 else {},
        subscription.generation_id if version >= 2 else -1,
        subscription.rack_id if version >= 3 else None,
    )


@given(subscriptions, st.sampled_from(VERSIONS))
def test_subscriptions_survive_a_round_trip(subscription: Subscription, version: int) -> None:
    assert read_subscription(write_subscription(subscription, version)) == in_version(subscription, version)


@given(partitions, st.sampled_from(VERSIONS), user_data)
def test_assignments_survive_a_round_trip(
    assigned: dict[TopicName, list[int]], version: int, data: bytes | None
) -> None:
    assert read_assignment(write_assignment(assigned, version, data)) == AssignedPartitions(assigned, data)


@each_version
def test_subscriptions_are_those_of_kafka_python(version: int) -> None:
    ours = Subscription([A, B], b"data", {A: [0, 2], B: [1]}, 7, "rack")
    message: Any = metadata.ConsumerProtocolSubscription
    theirs = message(
        topics=[A, B],
        user_data=b"data",
        owned_partitions=[(A, [0, 2]), (B, [1])] if version >= 1 else [],
        generation_id=7 if version >= 2 else -1,
        rack_id="rack" if version >= 3 else None,
        version=version,
    ).encode()

    assert write_subscription(ours, version) == theirs
    assert read_subscription(theirs) == in_version(ours, version)


@each_version
def test_assignments_are_those_of_kafka_python(version: int) -> None:
    theirs = kafka_python_assignment([(A, [0, 2]), (B, [1])], version)

    assert write_assignment({A: [0, 2], B: [1]}, version, b"data") == theirs
    assert read_assignment(theirs) == AssignedPartitions({A: [0, 2], B: [1]}, b"data")


def test_subscriptions_and_assignments_are_those_of_aiokafka() -> None:
    subscription = ConsumerProtocolMemberMetadata(0, [A, B], b"").encode()
    assignment = ConsumerProtocolMemberAssignment(0, [(A, [0, 2]), (B, [1])], b"").encode()

    assert write_subscription(Subscription([A, B], b""), 0) == subscription
    assert read_subscription(subscription) == Subscription([A, B], b"")
    assert write_assignment({A: [0, 2], B: [1]}, 0, b"") == assignment
    assert read_assignment(assignment) == AssignedPartitions({A: [0, 2], B: [1]}, b"")


def test_a_newer_version_is_read_as_the_newest_that_is_known() -> None:
    newest = Subscription([A], None, {A: [1]}, 3, "rack")
    newer = b"\x00\x09" + write_subscription(newest)[2:] + b"what version 9 adds"

    assert read_version(newer) == 3
    assert read_subscription(newer) == newest
    assert read_assignment(b"\x7f\xff" + write_assignment({A: [1]})[2:] + b"more") == AssignedPartitions({A: [1]})


@each_version
def test_trailing_bytes_are_ignored(version: int) -> None:
    assert read_subscription(write_subscription(Subscription([A]), version) + b"more") == Subscription([A])
    assert read_assignment(write_assignment({A: [1]}, version) + b"more") == AssignedPartitions({A: [1]})


def test_partitions_are_written_in_order() -> None:
    assert write_assignment({A: frozenset({3, 1, 2})}) == write_assignment({A: [1, 2, 3]})


def test_a_topic_that_is_named_twice_has_the_partitions_of_both() -> None:
    theirs = kafka_python_assignment([(A, [2]), (B, [0]), (A, [1])], 1)

    assert read_assignment(theirs).partitions == {A: [2, 1], B: [0]}


def test_an_empty_rack_is_none() -> None:
    assert read_subscription(write_subscription(Subscription([A], rack_id=""))).rack_id is None


@readers
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "begins with a version"),
        (b"\x00", "begins with a version"),
        (b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff", "no version -1"),
        (b"\x00\x00", "ends early"),
        (b"\x00\x00\xff\xff\xff\xff", "is null"),
        (b"\x00\x01\x7f\xff\xff\xff\x00\x00", "more elements than bytes"),
        (b"\x00\x01\x00\x00\x00\x01\x00\x09a", "more elements than bytes|runs past the end"),
    ],
)
def test_malformed_bytes_are_refused(read: Callable[[bytes], object], data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        read(data)


def test_more_elements_than_any_consumer_needs_are_refused() -> None:
    names = Subscription([A] * (ELEMENTS_MAX + 1))
    for bomb, read in (
        (write_subscription(names), read_subscription),
        (write_assignment({A: range(ELEMENTS_MAX)}), read_assignment),
    ):
        with pytest.raises(ProtocolError, match=f"more than {ELEMENTS_MAX} elements"):
            read(bomb)


@readers
@given(data=st.binary(max_size=40))
def test_arbitrary_bytes_are_read_or_refused(read: Callable[[bytes], object], data: bytes) -> None:
    with suppress(ProtocolError):
        read(b"\x00" + data)
