"""Committed offsets of a consumer's group."""

from typing import Annotated

import msgspec

from headwater.ids import TopicPartition
from headwater.listeners.http.proxy.answers import answer
from headwater.listeners.http.proxy.consumers.offset_store import OffsetAndMetadata
from headwater.listeners.http.proxy.declaration import ENTRIES_MAX, body_of, proxy_operation
from headwater.listeners.http.proxy.routes.assignments import OffsetBody, PartitionsBody, existing_partition
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.security.acl import Operation
from headwater.security.acl import topic as named


class CommitBody(msgspec.Struct):
    """The last processed offset of each partition; without them, all that the consumer was given is committed."""

    offsets: Annotated[list[OffsetBody], msgspec.Meta(max_length=ENTRIES_MAX)] | None = None


@proxy_operation("POST", "/consumers/{group}/instances/{instance}/offsets")
async def commit(request: Request, group: str, instance: str) -> Response:
    """Commit offsets: those of records that are processed, so that the group goes on behind them."""
    body = await body_of(request, CommitBody)
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        if not body.offsets:
            await consumer.commit_positions()
        else:
            offsets = {
                _readable(request, each): OffsetAndMetadata(each.offset + 1, each.metadata or "")
                for each in body.offsets
            }
            await consumer.commit(offsets)
    return answer(request, {})


def _readable(request: Request, wanted: OffsetBody) -> TopicPartition:
    where = existing_partition(request, wanted)
    request.guard.check(Operation.READ, named(where.topic))
    return where


@proxy_operation("GET", "/consumers/{group}/instances/{instance}/offsets")
async def get_committed(request: Request, group: str, instance: str) -> Response:
    """The offsets at which the group goes on. Partitions without one are left out."""
    body = await body_of(request, PartitionsBody)
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        wanted = [existing_partition(request, each) for each in body.partitions]
        found = await consumer.offsets.committed(list(dict.fromkeys(wanted)))
        offsets = [
            {"topic": where.topic, "partition": where.partition, **found[where]._asdict()}
            for where in wanted
            if where in found
        ]
        return answer(request, {"offsets": offsets})


OPERATIONS = (commit, get_committed)
