"""Every message we declare, instances of it, and the same in kio's words: the oracle of the protocol tests."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from headwater.protocol import messages
from headwater.protocol.wire.schema import (
    BYTES,
    IDENTIFIER,
    RECORDS,
    TEXT,
    Array,
    Field,
    Kind,
    NestedStruct,
    PrefixedBytes,
    Request,
    Response,
    Scalar,
    Struct,
)

NO_IDENTIFIER = UUID(int=0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP_MAX = 4_102_444_800_000
DURATION_MAX = 1 << 40


def _declared() -> Iterator[type[Request | Response]]:
    for module_info in pkgutil.walk_packages(messages.__path__, f"{messages.__name__}."):
        module = importlib.import_module(module_info.name)
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Request | Response)
                and value.__module__ == module.__name__
            ):
                yield value


# From here on, API keys and tags are ours: Kafka, and so kio, does not know them.
OURS_FROM = 10_000

MESSAGES = list(_declared())
MESSAGE_VERSIONS = [(message, version) for message in MESSAGES for version in message.versions]
KAFKA_MESSAGES = [message for message in MESSAGES if message.api_key < OURS_FROM]
KAFKA_MESSAGE_VERSIONS = [(message, version) for message in KAFKA_MESSAGES for version in message.versions]


def kio_versions(message: type[Request | Response]) -> set[int]:
    return set(schema_name_map[api_key_map[message.api_key]])


def kio_class(message: type[Request | Response], version: int) -> type[Any]:
    load = load_request_schema if issubclass(message, Request) else load_response_schema
    return load(message.api_key, version)


def kio_encode(entity: Any) -> bytes:
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def kio_decode(entity_class: type[Any], data: bytes) -> Any:
    entity, size = entity_reader(entity_class)(data, 0)
    assert size == len(data)
    return entity


@dataclass(frozen=True, slots=True)
class KioField:
    name: str
    kafka_type: str | None
    tag: int | None
    is_array: bool
    is_nullable: bool
    # Where there is no null on the wire, kio may still have None for a certain value.
    may_be_none: bool
    struct: type[Any] | None
    default: object


@cache
def kio_fields(entity_class: type[Any]) -> list[KioField]:
    hints = get_type_hints(entity_class)
    described: list[KioField] = []
    for entity_field in fields(entity_class):
        hint = hints[entity_field.name]
        is_nullable = get_origin(hint) in (UnionType, Union)
        if is_nullable:
            (hint,) = (choice for choice in get_args(hint) if choice is not NoneType)
        is_array = get_origin(hint) is tuple
        if is_array:
            hint = get_args(hint)[0]
        kafka_type = entity_field.metadata.get("kafka_type")
        described.append(
            KioField(
                name=entity_field.name,
                kafka_type=kafka_type,
                tag=entity_field.metadata.get("tag"),
                is_array=is_array,
                # kio gives None for the identifier of all zeros; on the wire there is no null identifier.
                is_nullable=is_nullable and kafka_type not in ("uuid", "datetime_i64"),
                may_be_none=is_nullable,
                struct=None if kafka_type else hint,
                default=entity_field.default,
            )
        )
    return described


def fields_in(struct: type[Struct], version: int) -> list[Field]:
    """Without those that Headwater adds."""
    return [
        field
        for field in struct.__fields__
        if version in field.versions and (field.tag is None or field.tag < OURS_FROM)
    ]


def to_kio(ours: Struct, entity_class: type[Any], version: int) -> Any:
    values: dict[str, object] = {}
    for field, kio_field, entity_field in zip(
        fields_in(type(ours), version), kio_fields(entity_class), fields(entity_class), strict=True
    ):
        values[entity_field.name] = value_to_kio(getattr(ours, field.name), kio_field, version)
    return entity_class(**values)


def value_to_kio(value: Any, kio_field: KioField, version: int) -> object:
    if isinstance(value, list):
        return tuple(value_to_kio(item, kio_field, version) for item in value)
    if isinstance(value, Struct):
        assert kio_field.struct is not None
        return to_kio(value, kio_field.struct, version)
    match kio_field.kafka_type:
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else EPOCH + timedelta(milliseconds=value)
        case "uuid":
            return None if value == NO_IDENTIFIER else value
        case _:
            return value


# kio knows error codes and dates where Kafka has plain integers, so that values are drawn from what both can hold.
_NUMBERS = {
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    "H": st.integers(0, 2**16 - 1),
    "?": st.booleans(),
    "d": st.floats(allow_nan=False),
}
_ERROR_CODES = st.sampled_from([code.value for code in KioErrorCode])
_TIMESTAMPS = st.integers(0, TIMESTAMP_MAX)
_TIMESTAMPS_OR_NONE = st.integers(-1, TIMESTAMP_MAX)
_DURATIONS = st.integers(-DURATION_MAX, DURATION_MAX)


def values(kind: Kind, version: int, kio_field: KioField) -> st.SearchStrategy[Any]:
    match kind:
        case Scalar():
            if kind is IDENTIFIER:
                return st.just(NO_IDENTIFIER) | st.uuids()
            if kio_field.kafka_type == "error_code":
                return _ERROR_CODES
            if kio_field.kafka_type == "datetime_i64":
                return _TIMESTAMPS_OR_NONE if kio_field.may_be_none else _TIMESTAMPS
            if kio_field.kafka_type == "timedelta_i64":
                return _DURATIONS
            return _NUMBERS[kind.format]
        case PrefixedBytes():
            return st.text(max_size=8) if kind is TEXT else st.binary(max_size=8)
        case Array():
            return st.lists(values(kind.element, version, kio_field), max_size=3)
        case NestedStruct():
            assert kio_field.struct is not None
            return instances(kind.struct, version, kio_field.struct)


@cache
def instances(struct: type[Struct], version: int, entity_class: type[Any]) -> st.SearchStrategy[Any]:
    """Instances with what the version can carry; the other fields keep their defaults."""
    drawn: dict[str, st.SearchStrategy[Any]] = {}
    for field, kio_field in zip(fields_in(struct, version), kio_fields(entity_class), strict=True):
        drawn[field.name] = values(field.kind, version, kio_field)
        if version in field.nullable:
            drawn[field.name] |= st.none()
        if version in field.tagged:
            drawn[field.name] |= st.just(field.default)
    return st.builds(struct, **drawn)


def filled(struct: type[Struct], version: int) -> Any:
    """An instance in which nothing is null, empty or left at its default."""

    def fill(kind: Kind) -> object:
        match kind:
            case Scalar():
                return UUID(int=1) if kind is IDENTIFIER else True if kind.format == "?" else 3
            case PrefixedBytes():
                return "ä" if kind is TEXT else b"ab"
            case Array():
                return [fill(kind.element), fill(kind.element)]
            case NestedStruct():
                return filled(kind.struct, version)

    return struct(**{field.name: fill(field.kind) for field in fields_in(struct, version)})


def kafka_type_of(kind: Kind) -> str | None:
    """Kafka's name of a kind, or of what an array holds; None for a structure."""
    if isinstance(kind, Array):
        return kafka_type_of(kind.element)
    if isinstance(kind, NestedStruct):
        return None
    if isinstance(kind, PrefixedBytes):
        return {id(TEXT): "string", id(BYTES): "bytes", id(RECORDS): "records"}[id(kind)]
    names = {"b": "int8", "h": "int16", "i": "int32", "q": "int64", "H": "uint16", "I": "uint32", "d": "float64"}
    return (names | {"?": "bool", "16s": "uuid"})[kind.format]
