"""Every message of Kafka in every version, byte for byte against kio, which is made from Kafka's own definitions."""

from dataclasses import MISSING
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.protocol.wire.codec import Request, Response, Struct, decode, encode
from headwater.protocol.wire.schema import Array, NestedStruct
from tests.protocol.kio_oracle import (
    KAFKA_MESSAGE_VERSIONS,
    KAFKA_MESSAGES,
    fields_in,
    instances,
    kafka_type_of,
    kio_class,
    kio_decode,
    kio_encode,
    kio_fields,
    kio_versions,
    to_kio,
    value_to_kio,
)
from tests.support.cases import in_one_test

# What kio 0.6.5 has beyond Kafka 4.2: a version that 4.2 marks unstable, and one that only its successor has.
NOT_ACCEPTED_BY_KAFKA = {"InitProducerId": {6}, "DescribeLogDirs": {5}}

Message = type[Request | Response]

each_message = in_one_test(["message"], zip(KAFKA_MESSAGES))
each_version = in_one_test(["message", "version"], KAFKA_MESSAGE_VERSIONS)


@each_message
def test_versions_are_those_that_kafka_accepts(message: Message) -> None:
    api = message.__name__.removesuffix("Request").removesuffix("Response")
    assert set(message.versions) == kio_versions(message) - NOT_ACCEPTED_BY_KAFKA.get(api, set())


@each_version
def test_fields_are_those_of_kafka(message: Message, version: int) -> None:
    entity_class = kio_class(message, version)
    assert message.is_flexible(version) == entity_class.__flexible__
    assert_same_fields(message, entity_class, version)


def assert_same_fields(struct: type[Struct], entity_class: type[Any], version: int) -> None:
    assert struct.__name__ == entity_class.__name__
    ours = fields_in(struct, version)
    theirs = kio_fields(entity_class)
    # kio turns what Kafka calls `timeoutMs` into a timedelta called `timeout`.
    assert [field.name.removesuffix("_ms") for field in ours] == [field.name for field in theirs]
    for field, kio_field in zip(ours, theirs, strict=True):
        label = f"{struct.__name__}.{field.name}"
        assert (field.tag if version in field.tagged else None) == kio_field.tag, label
        assert isinstance(field.kind, Array) == kio_field.is_array, label
        assert (version in field.nullable) == kio_field.is_nullable, label
        plain = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
        assert kafka_type_of(field.kind) == plain.get(str(kio_field.kafka_type), kio_field.kafka_type), label
        if kio_field.default not in (MISSING, ()):
            assert value_to_kio(field.default, kio_field, version) == kio_field.default, label
        nested = field.kind.element if isinstance(field.kind, Array) else field.kind
        if isinstance(nested, NestedStruct):
            assert kio_field.struct is not None
            assert_same_fields(nested.struct, kio_field.struct, version)


@each_version
@settings(max_examples=12)
@given(data=st.data())
def test_bytes_and_values_agree_with_kio_both_ways(data: st.DataObject, message: Message, version: int) -> None:
    entity_class = kio_class(message, version)
    ours = data.draw(instances(message, version, entity_class))
    theirs = to_kio(ours, entity_class, version)

    written = encode(ours, version)
    assert kio_decode(entity_class, written) == theirs
    assert kio_encode(theirs) == written

    read = decode(message, version, kio_encode(theirs))
    assert read == ours
    assert encode(read, version) == written
