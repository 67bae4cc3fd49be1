"""Messages that the consumers of a classic group exchange through the broker, which sees opaque bytes: subscriptions
inside JoinGroup, assignments inside SyncGroup, each behind the version of its format. A newer version only adds fields
at the end, so it is read as the newest version that we know."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headwater.errors import ProtocolError
from headwater.ids import TopicName
from headwater.protocol.wire.codec import Data, Struct, decode, encode_parts, field, int32
from headwater.protocol.wire.schema import ELEMENTS_MAX

VERSIONS = range(4)
NO_GENERATION = -1

_VERSION_BYTES = 2


class Subscription(NamedTuple):
    topics: Sequence[TopicName]
    user_data: bytes | None = None
    # From version 1 on.
    owned_partitions: Mapping[TopicName, Sequence[int]] = {}
    # The generation in which the partitions were owned; from version 2 on.
    generation_id: int = NO_GENERATION
    # From version 3 on.
    rack_id: str | None = None


class AssignedPartitions(NamedTuple):
    partitions: Mapping[TopicName, Sequence[int]]
    user_data: bytes | None = None


class TopicPartition(Struct):
    topic: str
    partitions: list[int32]


class ConsumerProtocolSubscription(Data, versions="0-3"):
    elements_max = ELEMENTS_MAX

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field(versions="1+")
    generation_id: int32 = field(versions="2+", default=NO_GENERATION)
    rack_id: str | None = field(versions="3+")


class ConsumerProtocolAssignment(Data, versions="0-3"):
    elements_max = ELEMENTS_MAX

    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = None


def read_version(data: bytes) -> int:
    """The version of the bytes, or our newest if theirs is newer."""
    if len(data) < _VERSION_BYTES:
        raise ProtocolError("what a consumer says to its group begins with a version of two bytes")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"the consumer protocol has no version {version}")
    return min(version, VERSIONS[-1])


def read_subscription(data: bytes) -> Subscription:
    read = decode(ConsumerProtocolSubscription, read_version(data), data, _VERSION_BYTES, exact=False)
    return Subscription(
        [TopicName(topic) for topic in read.topics],
        read.user_data,
        _by_topic(read.owned_partitions),
        read.generation_id,
        # Consumers without a rack send null or an empty string.
        read.rack_id or None,
    )


def write_subscription(subscription: Subscription, version: int = VERSIONS[-1]) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_listed(subscription.owned_partitions),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _write(message, version)


def read_assignment(data: bytes) -> AssignedPartitions:
    read = decode(ConsumerProtocolAssignment, read_version(data), data, _VERSION_BYTES, exact=False)
    return AssignedPartitions(_by_topic(read.assigned_partitions), read.user_data)


def write_assignment(
    partitions: Mapping[TopicName, Iterable[int]], version: int = VERSIONS[-1], user_data: bytes | None = None
) -> bytes:
    return _write(ConsumerProtocolAssignment(assigned_partitions=_listed(partitions), user_data=user_data), version)


def _by_topic(listed: Iterable[TopicPartition]) -> Mapping[TopicName, Sequence[int]]:
    partitions: dict[TopicName, list[int]] = {}
    for each in listed:
        # A topic may be listed more than once.
        partitions.setdefault(TopicName(each.topic), []).extend(each.partitions)
    return partitions


def _listed(partitions: Mapping[TopicName, Iterable[int]]) -> list[TopicPartition]:
    return [TopicPartition(topic=topic, partitions=sorted(numbers)) for topic, numbers in partitions.items()]


def _write(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    out = bytearray(version.to_bytes(_VERSION_BYTES, "big"))
    encode_parts(message, version, out)
    return bytes(out)
