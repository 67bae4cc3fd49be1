"""/v1/queues: records of share groups, received in one request and settled in another, each by its receipt."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from headwater.broker.shares.queue import RECORDS_MAX, Receive
from headwater.coordination.shares.terms import AcknowledgeType
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId
from headwater.listeners.http.operation import operation
from headwater.listeners.http.records.json_form import Format
from headwater.listeners.http.records.queue_form import (
    Duration,
    QueueRecordForm,
    ReceiptList,
    SettlementForm,
    peeked_form,
    received_form,
    settlement_forms,
    settlements,
)
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.records import ByteCount, Milliseconds
from headwater.security.acl import Operation
from headwater.security.acl import group as named

TAG = "queues"
SOME_REFUSED = {207: "Some of the receipts were refused; the results say why."}
QueueRecordCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=RECORDS_MAX)]


class Reception(msgspec.Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
    """What to receive, and how long to wait for the first record."""

    topics: list[str]
    limit: QueueRecordCount = 1
    # Of keys, values and headers together; one record is given whatever its size.
    bytes_max: ByteCount = 1 << 20
    wait_ms: Milliseconds = 0
    # How long the records are held; without it, as the group's share.record.lock.duration.ms says.
    lock_ms: Duration | None = None
    # Where the group begins in a partition that is new to it, unless its settings say it.
    from_: Literal["earliest", "latest"] | None = None
    format: Format = "text"


class QueueRecords(msgspec.Struct):
    """Records of a queue."""

    records: list[QueueRecordForm]


class Receipts(msgspec.Struct, forbid_unknown_fields=True):
    """Receipts of records that were received."""

    receipts: ReceiptList


class DelayedReceipts(msgspec.Struct, forbid_unknown_fields=True):
    """Receipts of records that are to be delivered again."""

    receipts: ReceiptList
    # After so long; without it, as the group's back-off says.
    delay_ms: Duration | None = None


class ExtendedReceipts(msgspec.Struct, forbid_unknown_fields=True):
    """Receipts of records that are to be held for longer."""

    receipts: ReceiptList
    # For so long from now on; without it, as share.record.lock.duration.ms says.
    lock_ms: Duration | None = None


class SettlementResults(msgspec.Struct):
    """One result for each receipt, in their order."""

    results: list[SettlementForm]


class PeekQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which topics (the parameter may be repeated), and how many records."""

    topic: list[str]
    limit: QueueRecordCount = 10
    bytes_max: ByteCount = 1 << 20
    format: Format = "text"


class StatsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which topics (the parameter may be repeated); of all that the group has begun with, if none is named."""

    topic: list[str] = []


class QueuePartition(msgspec.Struct):
    """How far a group is in one partition."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    # Records that are not done with, and how many of them are held by clients, or wait for their next delivery.
    backlog: int
    held: int
    waiting: int
    # For how long the oldest of them has been in the topic; null if there is none.
    oldest_age_ms: int | None
    # Since the broker started. Archived records were rejected, or delivered too often.
    deliveries: int
    accepted: int
    archived: int


class QueueStats(msgspec.Struct):
    """How far a group is with its queues."""

    partitions: list[QueuePartition]


@operation("POST", "/v1/queues/{group}/receive", tag=TAG)
async def receive(request: Request, group: str, body: Reception) -> QueueRecords:
    """Receive records, each with a receipt. They are held for this client until they are settled, or for a time.

    A client that hangs up while it waits takes none."""
    config = request.services.config
    wait_ms = min(body.wait_ms, config.headwater_http_wait_ms_max)
    request.may_be_abandoned()
    received = await request.broker.shares.queue.receive(
        request.guard,
        Receive(
            GroupId(group),
            body.topics,
            body.limit,
            min(body.bytes_max, config.headwater_http_response_bytes_max),
            wait_ms,
            body.lock_ms,
            body.from_,
        ),
    )
    return QueueRecords([received_form(each, body.format) for each in received])


@operation("POST", "/v1/queues/{group}/ack", tag=TAG, further_statuses=SOME_REFUSED)
async def ack(request: Request, group: str, body: Receipts) -> Response | SettlementResults:
    """The records are done with. The answer comes once that is on disk."""
    return await _settle(request, group, body.receipts, AcknowledgeType.ACCEPT)


@operation("POST", "/v1/queues/{group}/nack", tag=TAG, further_statuses=SOME_REFUSED)
async def nack(request: Request, group: str, body: DelayedReceipts) -> Response | SettlementResults:
    """The records are to be delivered again."""
    return await _settle(request, group, body.receipts, AcknowledgeType.RELEASE, body.delay_ms)


@operation("POST", "/v1/queues/{group}/reject", tag=TAG, further_statuses=SOME_REFUSED)
async def reject(request: Request, group: str, body: Receipts) -> Response | SettlementResults:
    """The records are hopeless: they leave the queue, and become dead letters if the group has them."""
    return await _settle(request, group, body.receipts, AcknowledgeType.REJECT)


@operation("POST", "/v1/queues/{group}/extend", tag=TAG, further_statuses=SOME_REFUSED)
async def extend(request: Request, group: str, body: ExtendedReceipts) -> Response | SettlementResults:
    """The records are held for longer."""
    return await _settle(request, group, body.receipts, AcknowledgeType.RENEW, body.lock_ms)


async def _settle(
    request: Request, group: str, receipts: list[str], outcome: AcknowledgeType, duration_ms: int | None = None
) -> Response:
    """Each receipt counts for itself. If none does, the whole request is refused."""
    wanted = settlements(receipts, outcome, duration_ms)
    outcomes = await request.broker.shares.queue.settle(request.guard, GroupId(group), wanted)
    refusals = [each for each in outcomes if each is not None]
    if len(refusals) == len(outcomes):
        raise refusals[0]
    content = msgspec.json.encode(SettlementResults(settlement_forms(outcomes)))
    return Response(207 if refusals else 200, content)


@operation("GET", "/v1/queues/{group}/records", tag=TAG)
async def peek(request: Request, group: str, query: PeekQuery) -> QueueRecords:
    """The first records that the group is not done with. Nothing is taken."""
    _check_there_are_groups(request, Operation.READ, group)
    peeked = await request.broker.shares.queue_views.peek(
        request.guard,
        GroupId(group),
        query.topic,
        records_max=query.limit,
        bytes_max=min(query.bytes_max, request.services.config.headwater_http_response_bytes_max),
    )
    return QueueRecords([peeked_form(each, query.format) for each in peeked])


@operation("GET", "/v1/queues/{group}/stats", tag=TAG)
async def stats(request: Request, group: str, query: StatsQuery) -> QueueStats:
    """How far the group is in each partition."""
    _check_there_are_groups(request, Operation.DESCRIBE, group)
    found = await request.broker.shares.queue_views.stats(request.guard, GroupId(group), query.topic or None)
    return QueueStats(
        [
            QueuePartition(
                topic=each.where.topic,
                partition=each.where.partition,
                start_offset=each.start_offset,
                end_offset=each.end_offset,
                backlog=each.backlog,
                held=each.held,
                waiting=each.waiting,
                oldest_age_ms=each.oldest_age_ms,
                deliveries=each.tally.deliveries,
                accepted=each.tally.accepted,
                archived=each.tally.archived,
            )
            for each in found
        ]
    )


def _check_there_are_groups(request: Request, operation: Operation, group: str) -> None:
    """Their topic is created with the first of them."""
    if not request.broker.groups.shards:
        request.guard.check(operation, named(group))
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group[:100]!r}")


AREA = Area("queues", (receive, ack, nack, reject, extend, peek, stats))
