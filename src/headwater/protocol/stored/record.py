"""Messages in the keys and values of records of internal topics, as Kafka stores them: each behind an int16.

That of a key is the type of the record; that of a value is the version of the value.
"""

from typing import ClassVar, TypeVar

from headwater.errors import ProtocolError
from headwater.protocol.wire.codec import Data, decode, encode_parts

_PREFIX_BYTES = 2
_KEY_VERSION = 0

KeyT = TypeVar("KeyT", bound="Key")
ValueT = TypeVar("ValueT", bound=Data)


class Key(Data):
    """Has one version only, for ever: compaction compares keys by their bytes."""

    record_type: ClassVar[int]

    def __init_subclass__(cls, *, record_type: int) -> None:
        super().__init_subclass__(versions=str(_KEY_VERSION))
        cls.record_type = record_type


def write_key(key: Key) -> bytes:
    return _write(key, key.record_type, _KEY_VERSION)


def write_value(value: Data, version: int) -> bytes:
    return _write(value, version, version)


def read_record_type(data: bytes) -> int:
    return _read_prefix(data, "key")


def read_key(key: type[KeyT], data: bytes) -> KeyT:
    return decode(key, _KEY_VERSION, data, _PREFIX_BYTES)


def read_value(value: type[ValueT], data: bytes) -> ValueT:
    return decode(value, _read_prefix(data, "value"), data, _PREFIX_BYTES)


def _write(message: Data, prefix: int, version: int) -> bytes:
    out = bytearray(prefix.to_bytes(_PREFIX_BYTES, "big"))
    encode_parts(message, version, out)
    return bytes(out)


def _read_prefix(data: bytes, what: str) -> int:
    if len(data) < _PREFIX_BYTES:
        raise ProtocolError(f"a stored {what} begins with an int16")
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)
