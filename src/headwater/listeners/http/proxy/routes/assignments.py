"""Partitions that a consumer assigns to itself, and its positions in all that it reads."""

from typing import Annotated, TypeAlias

import msgspec

from headwater.ids import TopicName, TopicPartition
from headwater.listeners.http.proxy.answers import answer, partition_not_found, topic_not_found
from headwater.listeners.http.proxy.declaration import ENTRIES_MAX, body_of, proxy_operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import NO_CONTENT, Response
from headwater.security.acl import Operation
from headwater.security.acl import topic as named

PartitionIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**63 - 1)]


class PartitionBody(msgspec.Struct):
    """A partition of a topic."""

    topic: str
    partition: PartitionIndex


class PartitionsBody(msgspec.Struct):
    """Partitions."""

    partitions: Annotated[list[PartitionBody], msgspec.Meta(max_length=ENTRIES_MAX)]


class OffsetBody(msgspec.Struct):
    """An offset of a partition."""

    topic: str
    partition: PartitionIndex
    offset: Offset
    metadata: str | None = None


class OffsetsBody(msgspec.Struct):
    """Offsets of partitions."""

    offsets: Annotated[list[OffsetBody], msgspec.Meta(max_length=ENTRIES_MAX)]


@proxy_operation("POST", "/consumers/{group}/instances/{instance}/assignments")
async def assign(request: Request, group: str, instance: str) -> Response:
    """Read just these partitions, whatever other members of the group read."""
    body = await body_of(request, PartitionsBody)
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        consumer.assign([existing_partition(request, each) for each in body.partitions])
    return NO_CONTENT


@proxy_operation("GET", "/consumers/{group}/instances/{instance}/assignments")
async def get_assignments(request: Request, group: str, instance: str) -> Response:
    """The partitions that the consumer reads now, by itself or because its group has given them to it."""
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        return answer(request, {"partitions": [where._asdict() for where in consumer.assignment()]})


@proxy_operation("POST", "/consumers/{group}/instances/{instance}/positions")
async def seek(request: Request, group: str, instance: str) -> Response:
    """Read on at these offsets."""
    body = await body_of(request, OffsetsBody)
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        for each in body.offsets:
            consumer.seek(TopicPartition(TopicName(each.topic), each.partition), each.offset)
    return NO_CONTENT


@proxy_operation("POST", "/consumers/{group}/instances/{instance}/positions/beginning")
async def seek_to_beginning(request: Request, group: str, instance: str) -> Response:
    """Read on at the first record of each partition."""
    return await _seek_to(request, group, instance, "earliest")


@proxy_operation("POST", "/consumers/{group}/instances/{instance}/positions/end")
async def seek_to_end(request: Request, group: str, instance: str) -> Response:
    """Read on at the next record that each partition gets."""
    return await _seek_to(request, group, instance, "latest")


async def _seek_to(request: Request, group: str, instance: str, place: str) -> Response:
    body = await body_of(request, PartitionsBody)
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        for each in body.partitions:
            await consumer.seek_to(TopicPartition(TopicName(each.topic), each.partition), place)
    return NO_CONTENT


def existing_partition(request: Request, wanted: PartitionBody | OffsetBody) -> TopicPartition:
    """Raises a refusal, which does not tell a client without rights whether the topic exists."""
    request.guard.check(Operation.DESCRIBE, named(wanted.topic))
    topic = request.broker.topics.find(wanted.topic)
    if topic is None:
        raise topic_not_found(wanted.topic)
    if wanted.partition >= topic.partition_count:
        raise partition_not_found(wanted.partition)
    return TopicPartition(topic.name, wanted.partition)


OPERATIONS = (assign, get_assignments, seek, seek_to_beginning, seek_to_end)
