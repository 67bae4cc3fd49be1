"""Decodes and encodes messages, and finds the errors in them. What does so is compiled on first use: a reader and a
writer for each message and version, a scan for each response."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from headwater.errors import ProtocolError
from headwater.protocol.wire.error_scan import compile_error_scan
from headwater.protocol.wire.primitives import ReadableBuffer
from headwater.protocol.wire.reader import compile_reader
from headwater.protocol.wire.schema import (
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
    "reader_of",
    "uint16",
    "uint32",
]

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
