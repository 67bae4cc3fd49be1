"""/v1/topics/{topic}/partitions/{partition}/dead-letters: records that share groups gave up, and why."""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from headwater.listeners.http.operation import operation
from headwater.listeners.http.records.json_form import Format, HeaderForm, content_form, header_forms
from headwater.listeners.http.records.reader import Position, check_readable, offset_of, read
from headwater.listeners.http.request import Request
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.records import ByteCount, RecordCount
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.batches.dead_letter_headers import DeadLetterOrigin
from headwater.protocol.batches.records import Record

TAG = "dead letters"


class DeadLetterQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Where to read from, how much, and of which group."""

    # `earliest`, `latest`, a number, or `time:` and milliseconds since 1970.
    offset: str = "earliest"
    # How many records of the topic are read; those of other groups count.
    limit: RecordCount = 500
    bytes_max: ByteCount = 1 << 20
    group: str | None = None
    format: Format = "text"


class Origin(msgspec.Struct):
    """Which record it was."""

    topic: str
    partition: int
    offset: int
    # null if the record was gone before it could be copied.
    timestamp_ms: int | None


class DeadLetter(msgspec.Struct, omit_defaults=True):
    """A record that a group gave up. Key, value and headers are those that it had."""

    offset: int
    origin: Origin
    group: str
    delivery_count: int
    # rejected, exhausted or expired.
    reason: str
    # When the group gave it up; -1 if that is not known.
    given_up_ms: int
    # Whether the content is there.
    is_copied: bool
    key: Raw | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    headers: list[HeaderForm] = []


class DeadLetterPage(msgspec.Struct):
    """Dead letters in their order, and where to read on."""

    dead_letters: list[DeadLetter]
    next_offset: int
    # The offset up to which there are records.
    high_watermark: int


@operation("GET", "/v1/topics/{topic}/partitions/{partition}/dead-letters", tag=TAG)
async def list_dead_letters(request: Request, topic: str, partition: int, query: DeadLetterQuery) -> DeadLetterPage:
    """The dead letters in a dead-letter topic (`orders.dlq` for the topic `orders`). Other records are left out.

    One of them is shown with its offset and a limit of 1."""
    broker = request.broker
    check_readable(broker, request.guard, topic)
    offset = await offset_of(broker, topic, partition, query.offset)
    (found,) = await read(
        broker,
        [Position(topic, partition, offset)],
        records_max=query.limit,
        bytes_max=min(query.bytes_max, request.services.config.headwater_http_response_bytes_max),
        wait_ms=0,
    )
    if found.error is not None:
        raise found.error
    letters = [
        _shown(record, origin, query.format)
        for record in found.records
        if (origin := dead_letter_headers.read(record.headers)) is not None and query.group in (None, origin.group)
    ]
    return DeadLetterPage(letters, found.next_offset, found.high_watermark)


def _shown(record: Record, origin: DeadLetterOrigin, form: Format) -> DeadLetter:
    shown = DeadLetter(
        offset=record.offset,
        origin=Origin(origin.topic, origin.partition, origin.offset, origin.timestamp_ms),
        group=origin.group,
        delivery_count=origin.delivery_count,
        reason=origin.reason.label,
        given_up_ms=origin.time_ms,
        is_copied=origin.is_copied,
    )
    shown.key, shown.key_base64 = content_form(record.key, form)
    shown.value, shown.value_base64 = content_form(record.value, form)
    headers = dead_letter_headers.stripped(record.headers)
    if headers:
        shown.headers = header_forms(headers)
    return shown


AREA = Area("dead letters", (list_dead_letters,))
