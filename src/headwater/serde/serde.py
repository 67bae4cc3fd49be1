"""What turns the values of a program into the bytes of records and back."""

from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

from headwater.errors import ErrorCode, HeadwaterError
from headwater.protocol.batches.records import Headers

T = TypeVar("T")

Side = Literal["key", "value"]


class Context(NamedTuple):
    """Where bytes are from, or go to."""

    topic: str
    side: Side = "value"
    headers: Headers = ()


class Serde(Protocol[T]):
    """Raises SerdeError. A null key or value is never given to a serde: it stays what it is."""

    def serialize(self, value: T, context: Context) -> bytes: ...

    def deserialize(self, data: bytes, context: Context) -> T: ...


class SerdeError(HeadwaterError):
    """A value that cannot be written as bytes, or bytes that are no such value."""

    code = ErrorCode.INVALID_RECORD


class Binary:
    """Bytes as they are."""

    def serialize(self, value: Any, context: Context) -> bytes:  # noqa: ARG002
        if not isinstance(value, bytes | bytearray | memoryview):
            raise SerdeError(f"bytes are expected, not {type(value).__name__}")
        return bytes(cast("bytes", value))

    def deserialize(self, data: bytes, context: Context) -> bytes:  # noqa: ARG002
        return data


class Text:
    """UTF-8."""

    def serialize(self, value: Any, context: Context) -> bytes:  # noqa: ARG002
        if not isinstance(value, str):
            raise SerdeError(f"text is expected, not {type(value).__name__}")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise SerdeError(f"the text cannot be written in UTF-8: {error}") from None

    def deserialize(self, data: bytes, context: Context) -> str:  # noqa: ARG002
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise SerdeError(f"this is not UTF-8: {error}") from None


class Json:
    """JSON without a schema."""

    def serialize(self, value: Any, context: Context) -> bytes:  # noqa: ARG002
        import orjson  # noqa: PLC0415

        try:
            return orjson.dumps(value)
        except TypeError as error:
            raise SerdeError(f"the value cannot be written as JSON: {error}") from None

    def deserialize(self, data: bytes, context: Context) -> Any:  # noqa: ARG002
        import orjson  # noqa: PLC0415

        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise SerdeError(f"this is not JSON: {error}") from None
