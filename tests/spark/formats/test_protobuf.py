"""Protobuf: messages of a schema that is compiled when the read is planned."""

import base64
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import LongType, StructField, StructType

from headwater.errors import ConfigError
from headwater.spark.formats.decoding import Decoded, decode
from headwater.spark.formats.proto_schema import compile_schema, find_message
from headwater.spark.formats.protobuf import ProtobufFormat

OPTION = "value.schema"
SCHEMA = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";

message Point { sint32 x = 1; optional float y = 2; }
message Order {
  enum State { NEW = 0; PAID = 1; }
  int64 id = 1;
  string name = 2;
  bytes data = 3;
  bool paid = 4;
  State state = 5;
  optional State before = 6;
  Point from = 7;
  repeated Point path = 8;
  map<string, Point> places = 9;
  map<int32, State> states = 10;
  google.protobuf.Timestamp at = 11;
  repeated google.protobuf.Timestamp times = 12;
  uint64 big = 13;
  fixed32 unsigned = 14;
  double amount = 15;
  oneof kind { string text = 16; int32 number = 17; }
  repeated string tags = 18;
}
"""
DESCRIPTORS = compile_schema(OPTION, SCHEMA)
ORDER = ProtobufFormat(OPTION, DESCRIPTORS, "Order")
Order: Any = GetMessageClass(find_message(OPTION, DESCRIPTORS, "shop.Order"))
BLANK = {
    "id": 0,
    "name": "",
    "data": b"",
    "paid": False,
    "state": "NEW",
    "before": None,
    "from": None,
    "path": [],
    "places": [],
    "states": [],
    "at": None,
    "times": [],
    "big": Decimal(0),
    "unsigned": 0,
    "amount": 0.0,
    "text": None,
    "number": None,
    "tags": [],
}


def read(chosen: ProtobufFormat, *values: bytes | None) -> Decoded:
    datatype = chosen.column_type()
    chosen.check("value", datatype)
    # The decoder is pickled, as for its way to tasks.
    chosen = pickle.loads(pickle.dumps(chosen))
    found = decode(chosen.decoder(datatype), pa.array(values, pa.binary()))
    found.values.validate(full=True)
    assert found.values.type == to_arrow_type(datatype, timezone="UTC")
    return found


def read_orders(*messages: Any) -> list[Any]:
    found = read(ORDER, *[each.SerializeToString() for each in messages])
    assert not found.failures
    return found.values.to_pylist()


def test_every_kind_of_field() -> None:
    message = Order(id=-5, name="a", data=b"\xff", paid=True, state=1, before=0, big=2**64 - 1, unsigned=2**32 - 1)
    getattr(message, "from").x = -3
    message.path.add(x=1, y=0.5)
    message.path.add(x=2)
    message.places["here"].x = 9
    message.states[4] = 1
    message.at.seconds, message.at.nanos = 86_400, 1_999
    message.times.add(seconds=1)
    message.number = 0
    message.tags.append("t")
    assert read_orders(message, Order()) == [
        {
            "id": -5,
            "name": "a",
            "data": b"\xff",
            "paid": True,
            "state": "PAID",
            "before": "NEW",
            "from": {"x": -3, "y": None},
            "path": [{"x": 1, "y": 0.5}, {"x": 2, "y": None}],
            "places": [("here", {"x": 9, "y": None})],
            "states": [(4, "PAID")],
            "at": datetime(1970, 1, 2, 0, 0, 0, 1, UTC),
            "times": [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)],
            "big": Decimal(2**64 - 1),
            "unsigned": 2**32 - 1,
            "amount": 0.0,
            "text": None,
            "number": 0,
            "tags": ["t"],
        },
        BLANK,
    ]


def test_an_enum_value_unknown_to_the_schema_stays_a_number() -> None:
    assert read_orders(Order(state=7))[0]["state"] == "7"


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "id": st.integers(-(2**63), 2**63 - 1),
                "name": st.text(max_size=5),
                "data": st.binary(max_size=5),
                "paid": st.booleans(),
                "amount": st.floats(allow_nan=False),
                "tags": st.lists(st.text(max_size=3), max_size=3),
                "unsigned": st.integers(0, 2**32 - 1),
            }
        ),
        max_size=5,
    )
)
def test_written_messages_are_read_back(rows: list[dict[str, Any]]) -> None:
    assert read_orders(*[Order(**row) for row in rows]) == [BLANK | row for row in rows]


@given(st.binary(max_size=40))
def test_garbage_is_one_bad_record_or_a_message(garbage: bytes) -> None:
    good = Order(id=5).SerializeToString()
    found = read(ORDER, good, None, garbage, good)
    assert [row for row, _ in found.failures] in ([], [2])
    assert found.values[0].as_py()["id"] == found.values[3].as_py()["id"] == 5
    assert found.values[1].as_py() is None


def test_hostile_messages_are_bad() -> None:
    late = Order()
    late.at.seconds = 2**60
    not_text = b"\x12\x02\xff\xff"
    too_long = b"\x12\xff\xff\xff\xff\x07"
    found = read(ORDER, late.SerializeToString(), not_text, too_long, Order(id=1).SerializeToString())
    assert [row for row, _ in found.failures] == [0, 1, 2]
    assert [each and each["id"] for each in found.values.to_pylist()] == [None, None, None, 1]


def test_an_empty_value_is_a_message_with_no_field_set() -> None:
    assert read(ORDER, b"").values.to_pylist() == [BLANK]


def test_invalid_utf8_in_proto2_text_is_a_bad_record() -> None:
    schema = 'syntax = "proto2"; message Note { optional string text = 1; }'
    chosen = ProtobufFormat(OPTION, compile_schema(OPTION, schema), None)
    found = read(chosen, b"\x0a\x01\xff", b"\x0a\x01a")
    assert [row for row, _ in found.failures] == [0]
    assert found.values.to_pylist() == [None, {"text": "a"}]


def test_a_schema_may_be_a_compiled_descriptor_set() -> None:
    text = base64.encodebytes(DESCRIPTORS).decode()
    assert compile_schema(OPTION, text) == DESCRIPTORS


def test_the_only_message_need_not_be_named() -> None:
    schema = 'syntax = "proto3"; message One { int32 x = 1; }'
    assert find_message(OPTION, compile_schema(OPTION, schema), None).full_name == "One"
    nested = 'syntax = "proto3"; package p; message One { message Two { map<string, int32> x = 1; } Two two = 1; }'
    assert find_message(OPTION, compile_schema(OPTION, nested), "Two").full_name == "p.One.Two"


@pytest.mark.parametrize(
    ("schema", "message", "said"),
    [
        (SCHEMA, None, "option 'value.message': which message.* There are: shop.Order, shop.Point"),
        (SCHEMA, "Item", "there is no message 'Item'"),
        ('syntax = "proto3"; message R { R r = 1; }', None, "message R holds itself"),
        ('syntax = "proto3"; message E {}', None, "message E has no fields"),
        ('syntax = "proto3";', None, "There are: none"),
        ("message {", None, "does not compile: schema.proto:1:.*Expected message name"),
        ('syntax = "proto3"; import "other.proto"; message A { int32 x = 1; }', None, "other.proto.*not found"),
        ("AAA", None, "neither a .proto file nor base64"),
        ("AAAA", None, "no FileDescriptorSet"),
    ],
)
def test_an_invalid_schema_or_message_name_is_refused(schema: str, message: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ProtobufFormat(OPTION, compile_schema(OPTION, schema), message).column_type()


def test_another_column_type_than_that_of_the_schema_is_refused() -> None:
    with pytest.raises(ConfigError, match="column 'value' is struct<"):
        ORDER.check("value", StructType([StructField("id", LongType())]))
