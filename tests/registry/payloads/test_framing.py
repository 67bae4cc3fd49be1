"""What stands in front of a payload, as Confluent's serializers write it."""

import io

import pytest
from confluent_kafka.schema_registry.serde import SchemaId

from headwater.registry.errors import InvalidPayload
from headwater.registry.payloads import framing


def test_an_id_is_read_back() -> None:
    framed = framing.read(framing.prefix(77) + b"payload")

    assert (framed.schema_id, framed.guid, bytes(framed.payload)) == (77, None, b"payload")


def test_a_guid_is_read() -> None:
    framed = framing.read(b"\1" + bytes(range(16)) + b"x")

    assert (framed.schema_id, framed.guid) == (None, "00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert bytes(framed.payload) == b"x"


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0", b"\1" + bytes(15), b"\2\0\0\0\1", b"{}"])
def test_bytes_without_framing_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidPayload):
        framing.read(data)


@pytest.mark.parametrize("indexes", [(0,), (1,), (3, 0, 2), (0, 0), (300,)])
def test_message_indexes_are_those_of_confluents_serializer(indexes: tuple[int, ...]) -> None:
    written = framing.prefix(9, indexes)

    theirs = SchemaId("PROTOBUF", 9, None, list(indexes))
    assert written == theirs.id_to_bytes()
    read = SchemaId("PROTOBUF")
    read.from_bytes(io.BytesIO(written))
    assert (read.id, read.message_indexes) == (9, list(indexes))
    found, rest = framing.read_indexes(memoryview(written[5:] + b"rest"))
    assert (found, bytes(rest)) == (indexes, b"rest")


@pytest.mark.parametrize("data", [b"", b"\x02", b"\xff", b"\xff" * 6, b"\x03\0", b"\xfe\xff\xff\xff\x0f"])
def test_wrong_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidPayload):
        framing.read_indexes(memoryview(data))
