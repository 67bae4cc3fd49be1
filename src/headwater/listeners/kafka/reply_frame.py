"""The frame of a reply: its size, the correlation id, no tagged fields where the version has any, and the response."""

from struct import Struct
from typing import Any

from headwater.protocol.wire.codec import Response, encode_parts

_HEAD = Struct(">ii")
_write_int32 = Struct(">i").pack_into
_CORRELATION_ID_POSITION = 4
_NO_TAGS = 0


def frame_parts(response: Response, version: int, correlation_id: int, *, has_tagged_header: bool) -> list[Any]:
    """The frame in parts: records that are file ranges are parts of their own."""
    out = bytearray(_HEAD.pack(0, correlation_id))
    if has_tagged_header:
        out.append(_NO_TAGS)
    parts = encode_parts(response, version, out)
    _write_int32(out, 0, sum(map(len, parts)) - _CORRELATION_ID_POSITION)
    return parts


def write_correlation_id(frame: bytearray, correlation_id: int) -> None:
    _write_int32(frame, _CORRELATION_ID_POSITION, correlation_id)
