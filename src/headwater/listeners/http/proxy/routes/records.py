"""Records are read by a consumer."""

import asyncio
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Raw

from headwater.errors import HeadwaterError
from headwater.ids import TopicPartition
from headwater.listeners.http.proxy import schemas
from headwater.listeners.http.proxy.answers import FORMAT_MISMATCH, INVALID, ProxyRefusal
from headwater.listeners.http.proxy.declaration import proxy_operation
from headwater.listeners.http.proxy.embedded_format import EmbeddedFormat, format_of_answer
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.protocol.batches.records import Record
from headwater.registry.errors import InvalidPayload
from headwater.registry.parsed import SchemaType
from headwater.registry.payloads import framing

# Records of more bytes together are decoded in a thread, which pauses after so many of them.
_INLINE_BYTES_MAX: Final = 32 * 1024
_BYTES_PER_PAUSE: Final = 16 * 1024
_PAUSE_S: Final = 50e-6
_NULL = Raw(b"null")
# Of one answer in JSON, beside its last record. Base64 makes three bytes four.
_ANSWER_BYTES_MAX: Final = 32 << 20
# Of one answer. Looking for more would keep the broker busy.
_SCHEMAS_MAX: Final = 100
_decode_json = msgspec.json.Decoder().decode

_Schemas = Mapping[int, schemas.Payloads | HeadwaterError]


class RecordsQuery(msgspec.Struct):
    """How long to wait, and how much to read."""

    timeout: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] = -1
    max_bytes: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1


class ConsumedRecord(msgspec.Struct):
    """A record."""

    topic: str
    key: Raw
    value: Raw
    partition: int
    offset: int
    timestamp: int


@proxy_operation("GET", "/consumers/{group}/instances/{instance}/records")
async def read_records(request: Request, group: str, instance: str, query: RecordsQuery) -> Response:
    """Records of the partitions that the consumer has, in its format. Waits for them until `timeout`."""
    config = request.services.config
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        embedded, content_type = format_of_answer(request, consumer.settings.format)
        if embedded is not consumer.settings.format:
            raise ProxyRefusal(
                FORMAT_MISMATCH,
                "The requested embedded data format does not match the deserializer for this consumer instance",
            )
        timeout_ms = consumer.settings.timeout_ms if query.timeout < 0 else query.timeout
        bytes_max = config.headwater_http_response_bytes_max
        if query.max_bytes > 0:
            bytes_max = min(bytes_max, query.max_bytes)
        request.may_be_abandoned()
        consumed = await consumer.poll(min(timeout_ms, config.headwater_http_wait_ms_max), bytes_max)
        known = await _schemas(request, embedded.schema_type, consumed.records)
        shown = await _shown_records(consumed.records, embedded, known)
        consumer.delivered(consumed.first(len(shown)))
        return Response(200, b"[" + b",".join(shown) + b"]", content_type)


async def _schemas(
    request: Request, schema_type: SchemaType | None, records: Sequence[tuple[TopicPartition, Record]]
) -> _Schemas:
    """The schemas that keys and values name; or why one cannot be used, for some only look as if they named one."""
    known: dict[int, schemas.Payloads | HeadwaterError] = {}
    if schema_type is None or not records:
        return known
    schemas.registry_of(request)
    for _, record in records:
        for content in (record.key, record.value):
            if content is None or len(content) < framing.ID_BYTES or content[0] != 0:
                continue
            schema_id = int.from_bytes(content[1 : framing.ID_BYTES], "big")
            if schema_id not in known and len(known) < _SCHEMAS_MAX:
                try:
                    known[schema_id] = await schemas.by_id(request, schema_id, schema_type)
                except HeadwaterError as error:
                    known[schema_id] = error.kept()
    return known


async def _shown_records(
    records: Sequence[tuple[TopicPartition, Record]], embedded: EmbeddedFormat, known: _Schemas
) -> list[bytes]:
    """In JSON; the first of them, if they become too many bytes."""
    size = sum(len(record.key or b"") + len(record.value or b"") for _, record in records)
    # What a schema makes of a few bytes may take long.
    if embedded.schema_type is None and size <= _INLINE_BYTES_MAX:
        return _encode(records, embedded, known, lambda: None)
    return await asyncio.to_thread(_encode, records, embedded, known, lambda: time.sleep(_PAUSE_S))


def _encode(
    records: Sequence[tuple[TopicPartition, Record]],
    embedded: EmbeddedFormat,
    known: _Schemas,
    pause: Callable[[], None],
) -> list[bytes]:
    shown: list[bytes] = []
    since_pause = size = 0
    for where, record in records:
        since_pause += len(record.key or b"") + len(record.value or b"")
        if since_pause >= _BYTES_PER_PAUSE:
            since_pause = 0
            pause()
        part = "key"
        try:
            key = _shown(record.key, embedded, known, is_key=True)
            part = "value"
            value = _shown(record.value, embedded, known, is_key=False)
        except InvalidPayload as error:
            message = (
                f"{part} deserialization error for format {embedded.value}: {where} offset {record.offset} {error}"
            )
            raise ProxyRefusal(INVALID, message) from None
        each = ConsumedRecord(where.topic, key, value, where.partition, record.offset, record.timestamp)
        shown.append(msgspec.json.encode(each))
        size += len(shown[-1])
        since_pause += len(shown[-1])
        if size >= _ANSWER_BYTES_MAX:
            # A few bytes of a payload can become many of JSON.
            break
    return shown


def _shown(content: bytes | None, embedded: EmbeddedFormat, known: _Schemas, *, is_key: bool) -> Raw:
    if content is None:
        return _NULL
    match embedded:
        case EmbeddedFormat.BINARY:
            return _base64(content)
        case EmbeddedFormat.JSON:
            try:
                _decode_json(content)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                raise InvalidPayload("", f"this is not JSON: {error}") from None
            # As it was written: numbers keep all their digits.
            return Raw(bytes(content))
        case _:
            try:
                return Raw(msgspec.json.encode(_decoded(content, known)))
            except InvalidPayload:
                # Keys mostly have no schema.
                if is_key:
                    return _base64(content)
                raise


def _base64(content: bytes) -> Raw:
    return Raw(b'"' + b64encode(content) + b'"')


def _decoded(content: bytes, known: _Schemas) -> Any:
    framed = framing.read(content)
    if framed.schema_id is None:
        raise InvalidPayload("", "the schema is named by its GUID, which is not read here")
    payloads = known.get(framed.schema_id)
    if isinstance(payloads, schemas.Payloads):
        return payloads.decode(framed.payload)
    raise InvalidPayload(
        "", f"records of one answer have at most {_SCHEMAS_MAX} schemas" if payloads is None else str(payloads)
    )


OPERATIONS = (read_records,)
