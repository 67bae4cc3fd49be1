"""Records are written."""

import asyncio
import binascii
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import Raw

from headwater.errors import HeadwaterError
from headwater.listeners.http.problem import Rejection, status_of
from headwater.listeners.http.proxy import schemas
from headwater.listeners.http.proxy.answers import (
    CONVERSION_FAILED,
    INVALID,
    KEY_SCHEMA_MISSING,
    VALUE_SCHEMA_MISSING,
    ProxyRefusal,
    partition_not_found,
    topic_not_found,
)
from headwater.listeners.http.proxy.declaration import ENTRIES_MAX, partition_index, proxy_operation, read_body
from headwater.listeners.http.proxy.embedded_format import EmbeddedFormat, answer_type, format_of_body
from headwater.listeners.http.records.writer import NewRecord, Written, writable_topic, write
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.registry.errors import InvalidPayload
from headwater.registry.parsed import SchemaType
from headwater.security.acl import Operation
from headwater.security.acl import topic as named

# Payloads of more bytes together are encoded in a thread, which pauses after so many of them.
_INLINE_BYTES_MAX: Final = 32 * 1024
_BYTES_PER_PAUSE: Final = 16 * 1024
_PAUSE_S: Final = 50e-6
# A field that is left out is written with its default, so that a small value can become a large payload.
_ENCODED_BYTES_MAX: Final = 64 << 20
# Of one record: sending it again is of no use, or may be.
_FINAL_ERROR, _RETRIABLE_ERROR = 1, 2
_NULL = Raw(b"null")


class NewRecordBody(msgspec.Struct, forbid_unknown_fields=True):
    """A record to write."""

    key: Raw = _NULL
    value: Raw = _NULL
    partition: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None


class NewRecordsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Records to write, with the schemas of their keys and values where the format has schemas."""

    records: Annotated[list[NewRecordBody], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]
    key_schema: str | None = None
    key_schema_id: int | None = None
    value_schema: str | None = None
    value_schema_id: int | None = None


class RecordOffset(msgspec.Struct):
    """Where a record is; or why it was refused, with `error_code` 2 if it may be sent again."""

    partition: int | None
    offset: int | None
    error_code: int | None
    error: str | None


class Receipts(msgspec.Struct):
    """What became of the records, in their order."""

    offsets: list[RecordOffset]
    key_schema_id: int | None
    value_schema_id: int | None


@proxy_operation("POST", "/topics/{topic}")
async def produce(request: Request, topic: str) -> Response:
    """Write records to the partitions of their keys, or to the partition that each names."""
    return await _produce(request, topic, None)


@proxy_operation("POST", "/topics/{topic}/partitions/{partition}")
async def produce_to_partition(request: Request, topic: str, partition: str) -> Response:
    """Write records to one partition."""
    return await _produce(request, topic, partition)


async def _produce(request: Request, topic: str, partition: str | None) -> Response:
    content_type = answer_type(request)
    embedded = format_of_body(request)
    # The right first: a client without it cannot tell what there is.
    request.guard.check(Operation.WRITE, named(topic))
    if request.broker.topics.find(topic) is None:
        raise topic_not_found(topic)
    count = writable_topic(request.broker, request.guard, topic).partition_count
    index = None if partition is None else partition_index(partition)
    if index is not None and index >= count:
        raise partition_not_found(index)
    body: NewRecordsBody = read_body(await request.body(), NewRecordsBody)
    for each in body.records:
        if each.partition is not None and each.partition >= count:
            raise partition_not_found(each.partition)
        if index is not None and each.partition not in (None, index):
            raise ProxyRefusal(INVALID, f"a record is for partition {each.partition}, the request for {index}")
    keys = [bytes(each.key) for each in body.records]
    values = [bytes(each.value) for each in body.records]
    key_payloads = await _payloads(request, topic, embedded, body, keys, is_key=True)
    value_payloads = await _payloads(request, topic, embedded, body, values, is_key=False)
    encoded_keys = await _encoded(keys, embedded, key_payloads, "key")
    encoded_values = await _encoded(values, embedded, value_payloads, "value")
    records = [
        NewRecord(key, value, (), each.partition if index is None else index)
        for key, value, each in zip(encoded_keys, encoded_values, body.records, strict=True)
    ]
    written = await write(request.broker, request.guard, topic, records)
    receipts = Receipts(
        [_receipt(each) for each in written],
        None if key_payloads is None else key_payloads.schema_id,
        None if value_payloads is None else value_payloads.schema_id,
    )
    return Response(200, msgspec.json.encode(receipts), content_type)


async def _payloads(
    request: Request,
    topic: str,
    embedded: EmbeddedFormat,
    body: NewRecordsBody,
    contents: Sequence[bytes],
    *,
    is_key: bool,
) -> schemas.Payloads | None:
    """The schema of the keys or values; None if there are none, or they have no schema."""
    schema_type: SchemaType | None = embedded.schema_type
    text, schema_id = (body.key_schema, body.key_schema_id) if is_key else (body.value_schema, body.value_schema_id)
    if schema_type is None:
        return None
    if schema_id is not None:
        return await schemas.by_id(request, schema_id, schema_type)
    kind = "key" if is_key else "value"
    if text is not None:
        return await schemas.by_text(request, f"{topic}-{kind}", schema_type, text)
    if all(content == b"null" for content in contents):
        return None
    raise ProxyRefusal(
        KEY_SCHEMA_MISSING if is_key else VALUE_SCHEMA_MISSING,
        f"Request includes {kind}s and uses a format that requires schemas but does not include the {kind}_schema or "
        f"{kind}_schema_id fields",
    )


_Encode = Callable[[bytes], bytes]


def _encoder(embedded: EmbeddedFormat, payloads: schemas.Payloads | None) -> _Encode:
    if embedded is EmbeddedFormat.BINARY:
        return _from_base64
    if payloads is None:
        # As it was written: numbers keep all their digits.
        return bytes
    return partial(_from_json, payloads)


def _from_base64(content: bytes) -> bytes:
    try:
        return b64decode(msgspec.json.decode(content, type=str), validate=True)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise Rejection(400, f"data={content[:80].decode(errors='replace')} is not a base64 string.") from None


def _from_json(payloads: schemas.Payloads, content: bytes) -> bytes:
    value: Any = read_body(content, Any)
    return payloads.encode(value)


async def _encoded(
    contents: Sequence[bytes], embedded: EmbeddedFormat, payloads: schemas.Payloads | None, kind: str
) -> list[bytes | None]:
    """null is a tombstone in all formats."""
    encode = _encoder(embedded, payloads)
    # What a schema makes of a few bytes may take long.
    if payloads is None and (embedded is not EmbeddedFormat.BINARY or sum(map(len, contents)) <= _INLINE_BYTES_MAX):
        return _encode_all(contents, encode, kind, lambda: None)
    return await asyncio.to_thread(_encode_all, contents, encode, kind, lambda: time.sleep(_PAUSE_S))


def _encode_all(contents: Sequence[bytes], encode: _Encode, kind: str, pause: Callable[[], None]) -> list[bytes | None]:
    encoded: list[bytes | None] = []
    since_pause = size = 0
    for number, content in enumerate(contents):
        since_pause += len(content)
        if since_pause >= _BYTES_PER_PAUSE:
            since_pause = 0
            pause()
        try:
            encoded.append(None if content == b"null" else encode(content))
            size += len(encoded[-1] or b"")
            since_pause += len(encoded[-1] or b"")
            if size > _ENCODED_BYTES_MAX:
                raise ProxyRefusal(INVALID, f"with the defaults of their fields the {kind}s take too many bytes")
        except InvalidPayload as error:
            message = f"Conversion of JSON to Object failed: {kind} of record {number}, {error}"
            raise ProxyRefusal(CONVERSION_FAILED, message) from None
    return encoded


def _receipt(written: Written) -> RecordOffset:
    error: HeadwaterError | None = written.error
    if error is None:
        return RecordOffset(written.partition, written.offset, None, None)
    code = _RETRIABLE_ERROR if status_of(error) == 503 else _FINAL_ERROR
    return RecordOffset(None, None, code, str(error))


OPERATIONS = (produce, produce_to_partition)
