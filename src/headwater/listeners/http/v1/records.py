"""/v1/topics/{topic}/records: records are written and read."""

from typing import Annotated, TypeAlias

import msgspec

from headwater.errors import HeadwaterError
from headwater.listeners.http.operation import operation
from headwater.listeners.http.records.json_form import Format, NewRecordForm, RecordForm, record_form
from headwater.listeners.http.records.reader import Position, check_readable, offset_of, read
from headwater.listeners.http.records.writer import Written, writable_topic, write
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.router import Area

TAG = "records"
SOME_REFUSED = {207: "Some of the records were refused; their receipts say why."}
RECORDS_MAX = 10_000
RecordCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=RECORDS_MAX)]
Milliseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
ByteCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class NewRecords(msgspec.Struct, forbid_unknown_fields=True):
    """Records to write, in their order."""

    records: Annotated[list[NewRecordForm], msgspec.Meta(min_length=1, max_length=RECORDS_MAX)]


class Receipt(msgspec.Struct, omit_defaults=True):
    """Where a record is, once it is on disk; or why it was refused."""

    partition: int
    # -1 if it was refused.
    offset: int
    timestamp_ms: int
    error: str = ""
    # Kafka's name of the error.
    code: str = ""


class Receipts(msgspec.Struct):
    """One receipt for each record, in their order."""

    records: list[Receipt]


class ReadQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Where to read from, how much, and how long to wait."""

    # `earliest`, `latest`, a number, or `time:` and milliseconds since 1970.
    offset: str = "earliest"
    limit: RecordCount = 500
    # Of record batches; one batch is always given whole.
    bytes_max: ByteCount = 1 << 20
    # How long to wait if there is nothing yet.
    wait_ms: Milliseconds = 0
    format: Format = "text"
    # Whether records of transactions that are not committed are left out.
    committed_only: bool = True


class ReadAnswer(msgspec.Struct):
    """Records in their order, and where to read on."""

    records: list[RecordForm]
    next_offset: int
    # The offset up to which there are records.
    high_watermark: int


@operation("POST", "/v1/topics/{topic}/records", tag=TAG, further_statuses=SOME_REFUSED)
async def produce(request: Request, topic: str, body: NewRecords) -> Response | Receipts:
    """Write records. The answer comes once they are on disk.

    Repeat a request that got no answer under the same Idempotency-Key, and its records are there once."""
    writable_topic(request.broker, request.guard, topic)

    async def answer() -> Response:
        records = [each.to_record() for each in body.records]
        return receipts_response(await write(request.broker, request.guard, topic, records))

    return await request.services.idempotency_keys.once(request, await request.body(), answer)


def receipts_response(written: list[Written]) -> Response:
    """Records are refused one by one. If none was written, the whole request is refused."""
    refused = [each.error for each in written if each.error is not None]
    if refused and len(refused) == len(written):
        raise refused[0]
    content = msgspec.json.encode(Receipts([_receipt(each) for each in written]))
    return Response(207 if refused else 200, content)


def _receipt(written: Written) -> Receipt:
    error: HeadwaterError | None = written.error
    shown = Receipt(written.partition, written.offset, written.timestamp_ms)
    if error is not None:
        shown.error, shown.code = str(error), error.code.name
    return shown


@operation("GET", "/v1/topics/{topic}/partitions/{partition}/records", tag=TAG)
async def consume(request: Request, topic: str, partition: int, query: ReadQuery) -> ReadAnswer:
    """Read records of a partition, from an offset, a time, the beginning or the end."""
    broker, config = request.broker, request.services.config
    check_readable(broker, request.guard, topic)
    offset = await offset_of(broker, topic, partition, query.offset, committed_only=query.committed_only)
    wait_ms = min(query.wait_ms, config.headwater_http_wait_ms_max)
    if wait_ms:
        request.may_be_abandoned()
    (found,) = await read(
        broker,
        [Position(topic, partition, offset)],
        records_max=query.limit,
        bytes_max=min(query.bytes_max, config.headwater_http_response_bytes_max),
        wait_ms=wait_ms,
        committed_only=query.committed_only,
    )
    if found.error is not None:
        raise found.error
    shown = [record_form(partition, record, query.format) for record in found.records]
    return ReadAnswer(shown, found.next_offset, found.high_watermark)


AREA = Area("records", (produce, consume))
