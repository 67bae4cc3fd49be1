"""Decodes and encodes messages and the headers before them, for broker and client, and finds the errors in responses.
What does so for messages is compiled on first use: a reader and a writer for each message and version, a scan for each
response.

A header's version follows from the API's: flexible versions add tagged fields, except to the response of ApiVersions,
which a client must be able to read before it knows the broker's versions.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from headwater.errors import ProtocolError
from headwater.protocol.wire.error_scan import compile_error_scan
from headwater.protocol.wire.primitives import ReadableBuffer, read_unsigned_varint, skip_tagged_fields
from headwater.protocol.wire.reader import compile_reader
from headwater.protocol.wire.schema import (
    ELEMENTS_MAX,
    Data,
    Message,
    Records,
    Request,
    Response,
    Struct,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint16,
    uint32,
)
from headwater.protocol.wire.writer import compile_writer

__all__ = [
    "Data",
    "Message",
    "Records",
    "Request",
    "RequestHeader",
    "Response",
    "Struct",
    "decode",
    "encode",
    "encode_parts",
    "field",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "nonzero_errors",
    "read_request_header",
    "read_response_header",
    "reader_of",
    "reply_frame_parts",
    "response_header_version",
    "uint16",
    "uint32",
    "write_correlation_id",
    "write_request_header",
    "write_response_header",
]

API_VERSIONS_KEY = 18

_REQUEST = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")
_REPLY_HEAD = struct.Struct(">ii")
_CORRELATION_ID_POSITION = 4
_write_int32 = struct.Struct(">i").pack_into

M = TypeVar("M", bound=Message)


def decode(message: type[M], version: int, buffer: ReadableBuffer, position: int = 0, *, exact: bool = True) -> M:
    """The message that fills `buffer` from `position` to its end; other bytes raise ProtocolError. Without `exact`,
    bytes behind the message are ignored, as Kafka's broker ignores them: librdkafka's Metadata request has some."""
    read = message.__readers__.get(version) or reader_of(message, version)
    return read(buffer, position, exact)


def reader_of(message: type[M], version: int) -> Callable[[ReadableBuffer, int, bool], M]:
    """The function behind `decode`, of a buffer, a position and `exact`, for callers that decode a version often."""
    read = message.__readers__.get(version)
    if read is None:
        _check_version(message, version)
        read = message.__readers__[version] = compile_reader(message, version)
    return read


def encode_parts(message: Message, version: int, out: bytearray) -> list[Any]:
    """Appends to `out`, the first part. Records that are not bytes-like (file ranges) become parts of their own."""
    write = message.__writers__.get(version)
    if write is None:
        _check_version(type(message), version)
        write = message.__writers__[version] = compile_writer(type(message), version)
    parts: list[Any] = [out]
    write(message, out, parts)
    return parts


def encode(message: Message, version: int) -> bytes:
    out = bytearray()
    parts = encode_parts(message, version, out)
    assert len(parts) == 1, "records that are not bytes-like need encode_parts"
    return bytes(out)


def nonzero_errors(response: Response) -> Sequence[int]:
    """The error codes in a response, at any depth, that are not zero."""
    return _error_scan_of(type(response))(response)


_error_scan_of = cache(compile_error_scan)


def _check_version(message: type[Message], version: int) -> None:
    if version not in message.versions:
        raise ProtocolError(f"{message.__name__} has no version {version}")


# -- headers


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def read_request_header(buffer: ReadableBuffer, flexible_from: Mapping[int, int | None]) -> RequestHeader:
    """Reads the header of a frame without its length; `flexible_from` gives each API's first flexible version.

    The header of an API that is not in the mapping is read as inflexible: its request is refused anyway.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(buffer)
        position = _REQUEST.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(buffer):
                raise ValueError("the client id runs past the end")
            client_id = str(buffer[position:end], "utf-8")
            position = end
        elif length != -1:
            raise ValueError("the client id has a negative length")
        first_flexible = flexible_from.get(api_key)
        if first_flexible is not None and api_version >= first_flexible:
            # Clients send no tags here, so only the general case pays for a call.
            position = _skip_tags(buffer, position) if buffer[position] else position + 1
        # As the constructor, which is a function written in Python.
        return tuple.__new__(RequestHeader, (api_key, api_version, correlation_id, client_id, position))
    except (struct.error, IndexError):
        raise ProtocolError("request header: the frame ends early") from None
    except ValueError as error:
        raise ProtocolError(f"request header: {error}") from None


def write_request_header(
    out: bytearray, request: type[Request], api_version: int, correlation_id: int, client_id: str | None
) -> None:
    encoded = b"" if client_id is None else client_id.encode()
    out += _REQUEST.pack(request.api_key, api_version, correlation_id, -1 if client_id is None else len(encoded))
    out += encoded
    if request.is_flexible(api_version):
        out.append(0)


def response_header_version(response: type[Response], api_version: int) -> int:
    return 1 if response.is_flexible(api_version) and response.api_key != API_VERSIONS_KEY else 0


def read_response_header(buffer: ReadableBuffer, response: type[Response], api_version: int) -> tuple[int, int]:
    """The correlation id, and the position of the body."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer)
        position = _CORRELATION_ID.size
        if response_header_version(response, api_version) == 1:
            position = _skip_tags(buffer, position)
        return correlation_id, position
    except (struct.error, IndexError):
        raise ProtocolError("response header: the frame ends early") from None
    except ValueError as error:
        raise ProtocolError(f"response header: {error}") from None


def write_response_header(out: bytearray, response: type[Response], api_version: int, correlation_id: int) -> None:
    out += _CORRELATION_ID.pack(correlation_id)
    if response_header_version(response, api_version) == 1:
        out.append(0)


def reply_frame_parts(
    response: Response, api_version: int, correlation_id: int, *, has_tagged_header: bool
) -> list[Any]:
    """The frame of a reply in parts: records that are file ranges are parts of their own."""
    out = bytearray(_REPLY_HEAD.pack(0, correlation_id))
    if has_tagged_header:
        out.append(0)
    parts = encode_parts(response, api_version, out)
    _write_int32(out, 0, sum(map(len, parts)) - _CORRELATION_ID_POSITION)
    return parts


def write_correlation_id(reply_frame: bytearray, correlation_id: int) -> None:
    _write_int32(reply_frame, _CORRELATION_ID_POSITION, correlation_id)


def _skip_tags(buffer: ReadableBuffer, position: int) -> int:
    count, position = read_unsigned_varint(buffer, position)
    if count > ELEMENTS_MAX:
        raise ValueError(f"more than {ELEMENTS_MAX} tagged fields")
    return skip_tagged_fields(buffer, position, count)
