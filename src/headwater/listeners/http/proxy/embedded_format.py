"""The formats of keys and values inside of JSON, and the media types that name them."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.request import Request
from headwater.registry.parsed import SchemaType

ANSWER_TYPE: Final = "application/vnd.kafka.v2+json"
_GENERAL: Final = (ANSWER_TYPE, "application/vnd.kafka+json", "application/json")
# Pages of other origins cannot send these without being asked (CORS).
_GENERAL_BODIES: Final = (*_GENERAL, "application/octet-stream")
ACCEPT_PARTS_MAX: Final = 64


class EmbeddedFormat(Enum):
    BINARY = "binary"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "jsonschema"

    @property
    def schema_type(self) -> SchemaType | None:
        return _SCHEMA_TYPES.get(self)

    @property
    def media_type(self) -> str:
        return f"application/vnd.kafka.{self.value}.v2+json"

    @property
    def media_types(self) -> tuple[str, str]:
        return self.media_type, f"application/vnd.kafka.{self.value}+json"


_SCHEMA_TYPES: Final = {
    EmbeddedFormat.AVRO: SchemaType.AVRO,
    EmbeddedFormat.PROTOBUF: SchemaType.PROTOBUF,
    EmbeddedFormat.JSON_SCHEMA: SchemaType.JSON,
}
_FORMATS: Final = {media_type: each for each in EmbeddedFormat for media_type in each.media_types}
MEDIA_TYPES: Final = (*_GENERAL_BODIES, *_FORMATS)
_ANSWER_TYPES: Final = (*_GENERAL, *_FORMATS)


def format_of_body(request: Request) -> EmbeddedFormat:
    """By the Content-Type, which is checked. One that names no format means binary."""
    check_media_type(request)
    return _FORMATS.get(request.media_type, EmbeddedFormat.BINARY)


def check_media_type(request: Request) -> None:
    if request.media_type not in MEDIA_TYPES:
        raise Rejection(415, "HTTP 415 Unsupported Media Type")


def answer_type(request: Request) -> str:
    """The type of an answer that has no records: what the client accepts most."""
    return _accepted(request, _ANSWER_TYPES)


def format_of_answer(request: Request, own: EmbeddedFormat) -> tuple[EmbeddedFormat, str]:
    """In which format the client wants records, and the type of the answer. `own` is the consumer's format, which is
    meant where the client names none."""
    accepted = _accepted(request, (*own.media_types, *_GENERAL, *_FORMATS))
    return _FORMATS.get(accepted, own), accepted


def _accepted(request: Request, offered: Sequence[str]) -> str:
    """The type with the highest quality in the Accept header; among equals the first that is offered."""
    accept = request.headers.get("accept", "").strip()
    if not accept:
        return offered[0]
    qualities = dict(_qualities(accept))
    best, best_quality = "", 0.0
    for media_type in offered:
        for pattern in (media_type, "application/*", "*/*"):
            quality = qualities.get(pattern)
            if quality is not None:
                if quality > best_quality:
                    best, best_quality = media_type, quality
                # The most specific one counts.
                break
    if not best:
        raise Rejection(406, "HTTP 406 Not Acceptable")
    return best


def _qualities(accept: str) -> Iterator[tuple[str, float]]:
    for part in accept.split(",")[:ACCEPT_PARTS_MAX]:
        media_type, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                quality = _quality(value.strip())
        yield media_type, quality


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        quality = -1.0
    if not 0.0 <= quality <= 1.0:
        raise Rejection(400, "the Accept header has a quality that is not between 0 and 1")
    return quality
