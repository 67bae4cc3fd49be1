"""Protobuf messages, written and read by Google's own library from the same file."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.formats import parse
from headwater.registry.parsed import Document, SchemaType
from headwater.registry.payloads.codec import DEPTH_MAX, codec_of
from headwater.registry.payloads.protobuf import ProtobufCodec

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "other/money.proto";
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated int32 counts = 3;
  map<string, other.Money> totals = 4;
  google.protobuf.Timestamp at = 5;
  oneof kind { bool is_gift = 6; State state = 7; }
  message Line { string name = 1; bytes raw = 2; }
  repeated Line lines = 8;
  Order next = 9;
  double price = 10;
}
enum State { UNKNOWN = 0; PAID = 1; }
message Second { sint32 number = 1; }
"""
MONEY = 'syntax = "proto2"; package other; message Money { required int64 amount = 1; optional fixed32 code = 2; }'
VALUE: dict[str, Any] = {
    "id": "17",
    "note": "ünïcode",
    "counts": [1, -2, 3],
    "totals": {"EUR": {"amount": "5", "code": 9}},
    "at": "2024-05-01T10:00:00Z",
    "state": "PAID",
    "lines": [{"name": "a", "raw": "/w=="}, {"name": "b", "raw": ""}],
    "next": {"id": "18", "counts": [], "totals": {}, "lines": [], "price": 0.0},
    "price": 1.5,
}


def order() -> ProtobufCodec:
    codec = codec_of(parse(Document(SchemaType.PROTOBUF, ORDER, {"other/money.proto": MONEY})))
    assert isinstance(codec, ProtobufCodec)
    return codec


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The class that Google's compiler makes of the same file."""
    directory: Path = tmp_path_factory.mktemp("proto")
    (directory / "other").mkdir()
    (directory / "other/money.proto").write_text(MONEY)
    (directory / "order.proto").write_text(ORDER)
    include = Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{directory}", f"-I{include}", "--include_imports", f"-o{directory}/out", "order.proto"]
    assert protoc.main(arguments) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString((directory / "out").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_googles_library_reads_what_we_write(theirs: Any) -> None:
    message = theirs.FromString(order().encode(VALUE))

    assert (message.id, message.note, list(message.counts), message.state) == (17, "ünïcode", [1, -2, 3], 1)
    assert message.totals["EUR"].amount == 5
    assert (message.lines[0].raw, message.next.id) == (b"\xff", 18)


def test_a_message_is_read_back() -> None:
    payload = order().encode(VALUE)

    order().validate(payload)
    assert order().decode(payload) == VALUE


def test_other_messages_are_found_by_index_and_by_name() -> None:
    second = order().message((1,))
    line = order().message_named("shop.Order.Line")

    assert second.full_name == "shop.Second"
    assert (line.indexes, line.full_name) == ((0, 0), "shop.Order.Line")
    assert second.decode(second.encode({"number": -1})) == {"number": -1}
    with pytest.raises(InvalidSchema):
        order().message_named("Nothing")
    for indexes in ((2,), (0, 1), (0, 0, 0), (100_000,)):
        with pytest.raises(InvalidPayload):
            order().message(indexes)


@pytest.mark.parametrize(
    "value", [{"id": "x"}, {"other": 1}, {"state": "GONE"}, {"totals": []}, {"counts": [2**40]}, [], 7, None, "x"]
)
def test_a_wrong_value_is_refused(value: Any) -> None:
    with pytest.raises(InvalidPayload):
        order().encode(value)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (b"\x0a\x01x", "/id"),  # text where a number should be
        (b"\x12\x01\xff", "/note"),  # no UTF-8
        (b"\x12\x09x", "/2"),  # cut off
        (b"\x1a\x02\x01\xff", "/counts"),  # a packed number is cut off
        (b"\x22\x02\x12\x00", "/totals/value/amount"),  # required, and missing
        (b"\x42\x03\x0a\x01\xff", "/lines/name"),
        (b"\x4a\x03\x12\x01\xff", "/next/note"),
        (b"\x51\x00", "/10"),
        (b"\x00", ""),
        (b"\xff" * 12, ""),
    ],
)
def test_wrong_bytes_are_refused_with_the_path(payload: bytes, path: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        order().validate(payload)

    assert refused.value.path.lstrip("/") == path.lstrip("/")


def test_repeated_numbers_may_be_packed_or_not() -> None:
    for payload in (b"\x18\x01\x18\x02", b"\x1a\x02\x01\x02"):
        order().validate(payload)
        assert order().decode(payload)["counts"] == [1, 2]


def test_unknown_fields_are_left_alone() -> None:
    order().validate(b"\xf8\x06\x01" + b"\xfb\x06\x08\x01\xfc\x06")


def test_depth_is_bounded() -> None:
    payload = b""
    for _ in range(DEPTH_MAX + 1):
        payload = b"\x4a" + varint(len(payload)) + payload
    value: Any = {}
    for _ in range(2_000):
        value = {"next": value}

    with pytest.raises(InvalidPayload, match="deep"):
        order().validate(payload)
    with pytest.raises(InvalidPayload):
        order().encode(value)
    for layers in (payload, b"\x4b" * 100_000):
        with pytest.raises(InvalidPayload):
            order().decode(layers)


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def test_groups_of_proto2_are_checked() -> None:
    text = "syntax = 'proto2'; message A { repeated group G = 1 { required string name = 2; } }"
    codec = codec_of(parse(Document(SchemaType.PROTOBUF, text)))

    codec.validate(b"\x0b\x12\x01x\x0c")
    with pytest.raises(InvalidPayload, match="required"):
        codec.validate(b"\x0b\x0c")


def test_a_file_that_is_not_there_is_refused() -> None:
    text = 'syntax = "proto3"; import "os.proto"; message A { int32 a = 1; }'

    with pytest.raises(InvalidSchema):
        codec_of(parse(Document(SchemaType.PROTOBUF, text))).encode({"a": 1})


def test_json_of_googles_library_is_ours(theirs: Any) -> None:
    from google.protobuf import json_format

    message = theirs.FromString(order().encode(VALUE))

    assert json.loads(json_format.MessageToJson(message, always_print_fields_with_no_presence=True)) == VALUE
