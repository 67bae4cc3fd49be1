"""Subscriptions of a WebSocket: records that are pushed as long as the client gives credit for them.

A subscription without credit reads nothing, and one whose client is slow reads nothing more than it has read: what is
not sent yet stays in the log.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated, NoReturn, Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

from headwater.broker.access.guard import Guard
from headwater.broker.broker import Broker
from headwater.broker.shares.queue import Receive
from headwater.coordination.groups.offsets.commands import OffsetQuery
from headwater.ids import GroupId
from headwater.listeners.http.outcome import granted
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.records.feed import READ_BYTES, READ_RECORDS, Feed, open_feed
from headwater.listeners.http.records.json_form import Format, HeaderForm, record_form
from headwater.listeners.http.records.positions import read_positions, write_positions
from headwater.listeners.http.records.queue_form import Duration, received_form
from headwater.listeners.http.websocket.messages import push
from headwater.security.acl import Operation
from headwater.security.acl import group as named_group

CREDIT_MAX = 10_000
_NAME_LENGTH_MAX = 100
# A read that waits costs little; from time to time it is asked again whether the client may still read.
_WAIT_MS = 30_000
# So much is handed to the socket at once.
_CHUNK_BYTES = 64 << 10
# What a client receives of a queue, it holds: no more at once than it is sent in one go.
_RECEIVED_MAX = 100

Send = Callable[[Sequence[bytes]], Awaitable[None]]


class SubscribeParams(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    # The name of the subscription; without it the broker chooses one.
    subscription: Annotated[str, msgspec.Meta(min_length=1, max_length=_NAME_LENGTH_MAX)] | None = None
    # How many records may be pushed before the client gives more credit.
    credit: Annotated[int, msgspec.Meta(ge=0, le=CREDIT_MAX)] = 100
    format: Format = "text"
    # Of a topic: from where on. Without partitions all of them, also those that the topic gets later.
    partitions: list[int] = []
    offset: str = "latest"
    after: str | None = None
    # The group whose committed offsets go before `offset`.
    group: str | None = None
    committed_only: bool = True
    # Of a queue: the share group, for how long it holds what is pushed, where it begins if it is new.
    queue: str | None = None
    lock_ms: Duration | None = None


class Message(msgspec.Struct, omit_defaults=True):
    """A record that is pushed."""

    subscription: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Raw | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    headers: list[HeaderForm] = []
    # Of a queue.
    delivery_count: int | UnsetType = UNSET
    receipt: str | UnsetType = UNSET


class Missing(msgspec.Struct, rename={"from_": "from"}):
    """Records that were deleted before they were pushed."""

    subscription: str
    partition: int
    from_: int
    to: int


class Source(Protocol):
    """Where the records of a subscription come from."""

    @property
    def positions(self) -> Mapping[int, int]:
        """Behind what was pushed."""
        ...

    def read(self, subscription: str, credit: int) -> AsyncIterator[tuple[bytes, bool]]:
        """Pushes, at most as many records as there is credit for; and whether each of them is a record."""
        ...


class Subscription:
    def __init__(self, name: str, source: Source, credit: int) -> None:
        self.name = name
        self.credit = credit
        self._source = source
        self._credit_came = asyncio.Event()
        # Behind what was sent. The source is ahead of it while the client takes its time.
        self._positions = dict(source.positions)

    @property
    def positions(self) -> str:
        return write_positions(self._positions)

    def add_credit(self, records: int) -> None:
        if self.credit + records > CREDIT_MAX:
            raise Rejection(400, f"params: a subscription has at most {CREDIT_MAX} records of credit")
        self.credit += records
        self._credit_came.set()

    async def run(self, send: Send) -> NoReturn:
        """Until the task is cancelled. Raises HeadwaterErrors."""
        while True:
            while not self.credit:
                self._credit_came.clear()
                await self._credit_came.wait()
            chunk: list[bytes] = []
            size = 0
            async for message, is_record in self._source.read(self.name, self.credit):
                self.credit -= is_record
                chunk.append(message)
                size += len(message)
                if size >= _CHUNK_BYTES:
                    await send(chunk)
                    self._positions = dict(self._source.positions)
                    chunk, size = [], 0
            if chunk:
                await send(chunk)
            self._positions = dict(self._source.positions)


class TopicSource:
    def __init__(self, feed: Feed, form: Format) -> None:
        self._feed = feed
        self._form: Format = form

    @property
    def positions(self) -> Mapping[int, int]:
        return self._feed.positions

    async def read(self, subscription: str, credit: int) -> AsyncIterator[tuple[bytes, bool]]:
        positions = self._feed.positions
        for part in await self._feed.read(wait_ms=_WAIT_MS, records_max=min(credit, READ_RECORDS)):
            if part.missing_from is not None:
                missing = Missing(subscription, part.partition, part.missing_from, part.next_offset)
                yield push("missing", missing), False
            for record in part.records:
                shown = record_form(part.partition, record, self._form)
                message = Message(
                    subscription,
                    self._feed.topic,
                    shown.partition,
                    shown.offset,
                    shown.timestamp_ms,
                    shown.key,
                    shown.key_base64,
                    shown.value,
                    shown.value_base64,
                    shown.headers,
                )
                positions[part.partition] = record.offset + 1
                yield push("message", message), True
            positions[part.partition] = part.next_offset


class QueueSource:
    def __init__(self, broker: Broker, guard: Guard, group_id: GroupId, params: SubscribeParams) -> None:
        self._queue = broker.shares.queue
        self._guard = guard
        self._group_id = group_id
        self._params = params
        # What is done with, the group knows.
        self.positions: Mapping[int, int] = {}

    async def read(self, subscription: str, credit: int) -> AsyncIterator[tuple[bytes, bool]]:
        # Others get their turn, also while there is always something to receive.
        await asyncio.sleep(0)
        params = self._params
        count = min(credit, _RECEIVED_MAX)
        reset = "earliest" if params.offset == "earliest" else None
        receive = Receive(self._group_id, [params.topic], count, READ_BYTES, _WAIT_MS, params.lock_ms, reset)
        for each in await self._queue.receive(self._guard, receive):
            shown = received_form(each, params.format)
            message = Message(
                subscription,
                shown.topic,
                shown.partition,
                shown.offset,
                shown.timestamp_ms,
                shown.key,
                shown.key_base64,
                shown.value,
                shown.value_base64,
                shown.headers,
                shown.delivery_count,
                shown.receipt,
            )
            yield push("message", message), True


async def open_source(broker: Broker, guard: Guard, params: SubscribeParams) -> Source:
    """Raises HeadwaterErrors."""
    if params.queue is not None:
        if params.partitions or params.after is not None or params.group is not None:
            raise Rejection(400, "params: a queue has no partitions, positions and committed offsets to begin at")
        guard.check(Operation.READ, named_group(params.queue))
        return QueueSource(broker, guard, GroupId(params.queue), params)
    offset, resumed = params.offset, None
    if params.after is not None:
        # A client that resumes has not seen partitions without a position yet.
        offset, resumed = "earliest", read_positions(params.after)
    elif params.group is not None:
        resumed = await _committed(broker, guard, params.group, params.topic)
    feed = await open_feed(
        broker,
        guard,
        params.topic,
        partitions=params.partitions or None,
        offset=offset,
        resumed=resumed,
        committed_only=params.committed_only,
    )
    return TopicSource(feed, params.format)


async def _committed(broker: Broker, guard: Guard, group: str, topic: str) -> Mapping[int, int] | None:
    guard.check(Operation.READ, named_group(group))
    if not broker.groups.shards:
        return None
    found = await granted(broker.groups.committed(GroupId(group), OffsetQuery(None)))
    return {
        each.partition.partition: each.committed.offset
        for each in found
        if each.committed is not None and each.partition.topic == topic
    }
