"""/v1/topics/{topic}/stream: the records of a topic as server-sent events, as they come.

A stream keeps its positions and what it has read last, and reads on when its client has taken that: a slow client holds
up itself alone.
"""

from collections.abc import Iterator

import msgspec

from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.http.operation import operation
from headwater.listeners.http.problem import render_problem
from headwater.listeners.http.records.feed import Feed, FeedPart, open_feed
from headwater.listeners.http.records.json_form import Format, record_form
from headwater.listeners.http.records.positions import read_positions, write_positions
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Stream, StreamWriter
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.records import TAG

CONTENT_TYPE = "text/event-stream"
# Proxies end connections that are silent for long.
KEEP_ALIVE_MS = 15_000
# How long a browser waits before it connects again.
_RETRY_MS = 2_000
# With more partitions, the positions are told after each read and not with each record.
_POSITIONS_PER_RECORD_MAX = 32
_CHUNK_BYTES = 64 << 10


class StreamQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which records, from where on, and how they are shown."""

    # The parameter may be repeated; without it, all partitions, also those that the topic gets later.
    partition: list[int] = []
    # `earliest`, `latest`, a number, or `time:` and milliseconds since 1970.
    offset: str = "latest"
    # Positions to resume from: the id of an event. The header Last-Event-ID goes before it.
    after: str | None = None
    format: Format = "text"
    # Whether records of transactions that are not committed are left out.
    committed_only: bool = True


@operation("GET", "/v1/topics/{topic}/stream", tag=TAG, answer_type=CONTENT_TYPE)
async def stream(request: Request, topic: str, query: StreamQuery) -> Stream:
    """Records as server-sent events, as they come.

    The id of an event has the positions of all partitions behind it. A client that gives it back (Last-Event-ID, as
    browsers do by themselves) goes on there."""
    after = request.headers.get("last-event-id") or query.after
    feed = await open_feed(
        request.broker,
        request.guard,
        topic,
        partitions=query.partition or None,
        # A client that resumes has not seen partitions without a position yet.
        offset="earliest" if after else query.offset,
        resumed=read_positions(after) if after else None,
        committed_only=query.committed_only,
    )
    events = EventStream(request, feed, query.format)
    return Stream(CONTENT_TYPE, events.write, [("x-accel-buffering", "no")])


class EventStream:
    def __init__(self, request: Request, feed: Feed, form: Format) -> None:
        self._clock = request.broker.clock
        self._session_end_ms = request.authentication.session_end_ms(request.identity)
        self._feed = feed
        self._form: Format = form

    async def write(self, writer: StreamWriter) -> None:
        try:
            await writer.send(b"retry: %d\nid: %s\n\n" % (_RETRY_MS, self._positions()))
            while True:
                parts = await self._feed.read(wait_ms=self._wait_ms())
                if not parts:
                    await writer.send(b":\n\n")
                for part in parts:
                    await self._send(part, writer)
                if parts and len(self._feed.positions) > _POSITIONS_PER_RECORD_MAX:
                    await writer.send(b"id: %s\n\n" % self._positions())
        except HeadwaterError as refusal:
            await writer.send(_event(render_problem(refusal).body, kind=b"error"))

    def _wait_ms(self) -> int:
        """Raises a Refusal when the session is over."""
        if self._session_end_ms is None:
            return KEEP_ALIVE_MS
        left_ms = self._session_end_ms - self._clock.now_ms()
        if left_ms <= 0:
            raise Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, "the session is over: authenticate again")
        return min(KEEP_ALIVE_MS, left_ms)

    async def _send(self, part: FeedPart, writer: StreamWriter) -> None:
        if part.missing_from is not None:
            lost = {"partition": part.partition, "from": part.missing_from, "to": part.next_offset}
            await writer.send(_event(msgspec.json.encode(lost), kind=b"missing"))
        chunk = bytearray()
        for event in self._events(part):
            chunk += event
            if len(chunk) >= _CHUNK_BYTES:
                await writer.send(bytes(chunk))
                chunk.clear()
        self._feed.positions[part.partition] = part.next_offset
        if chunk:
            await writer.send(bytes(chunk))

    def _events(self, part: FeedPart) -> Iterator[bytes]:
        positions = self._feed.positions
        tells_positions = len(positions) <= _POSITIONS_PER_RECORD_MAX
        for record in part.records:
            positions[part.partition] = record.offset + 1
            data = msgspec.json.encode(record_form(part.partition, record, self._form))
            yield _event(data, self._positions() if tells_positions else b"")

    def _positions(self) -> bytes:
        return write_positions(self._feed.positions).encode()


def _event(data: bytes, positions: bytes = b"", kind: bytes = b"") -> bytes:
    # JSON that is shown as it was written may have several lines.
    lines = [b"data: " + line for line in data.splitlines()]
    if positions:
        lines.append(b"id: " + positions)
    if kind:
        lines.append(b"event: " + kind)
    return b"\n".join(lines) + b"\n\n"


AREA = Area("event streams", (stream,))
