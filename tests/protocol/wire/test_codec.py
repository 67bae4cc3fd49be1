"""What a declaration means, checked on messages made for it; Kafka's own messages are checked against kio."""

from uuid import UUID

import pytest

from headwater.errors import ProtocolError
from headwater.protocol.wire.codec import (
    Data,
    Records,
    Request,
    Response,
    Struct,
    decode,
    encode,
    encode_parts,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint16,
    uint32,
)

ONE = UUID(int=1)


class Point(Struct):
    x: int8 = 5
    label: str | None = None


class Everything(Data, versions="0-3", flexible="2+"):
    flag: bool
    tiny: int8
    small: int16
    medium: int32
    large: int64
    port: uint16
    checksum: uint32
    ratio: float64
    identifier: UUID
    text: str
    blob: bytes
    blob_or_none: bytes | None
    numbers: list[int32]
    flags: list[bool] | None
    names: list[str]
    identifiers: list[UUID]
    point: Point
    point_or_none: Point | None
    points: list[Point] | None = field(nullable="1+", default=[])
    late: int32 = field(versions="3+", default=-1)
    early: str = field(versions="0-1")


def everything(**changes: object) -> Everything:
    values: dict[str, object] = {
        "flag": True,
        "tiny": -1,
        "small": -2,
        "medium": -3,
        "large": -4,
        "port": 65535,
        "checksum": 2**32 - 1,
        "ratio": 0.5,
        "identifier": ONE,
        "text": "größe",
        "blob": b"\x00\xff",
        "blob_or_none": b"",
        "numbers": [1, -1],
        "flags": [True, False],
        "names": ["", "a"],
        "identifiers": [ONE, UUID(int=0)],
        "point": Point(x=1, label="p"),
        "point_or_none": Point(x=2),
        "points": [Point(), Point(x=3)],
        **changes,
    }
    return Everything(**values)  # pyright: ignore[reportArgumentType]


class Tagged(Request, key=99, versions="0-1", flexible="1+"):
    name: str = ""
    number: int32 = field(versions="1+", tag=0, default=7)
    text: str | None = field(versions="1+", tag=1)
    point: Point = field(versions="1+", tag=2)
    points: list[Point] = field(versions="1+", tag=130)


class Slice(Struct):
    index: int32
    records: Records | None
    note: str | None = field(versions="1+", tag=0)


class Carrier(Response, key=98, versions="0-1", flexible="1+"):
    slices: list[Slice]
    key_material: bytes = field()
    end: int8 = 9


class FileRange:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def test_a_message_knows_its_key_versions_and_first_flexible_version() -> None:
    assert (Tagged.api_key, Tagged.versions, Tagged.flexible_from) == (99, range(2), 1)
    assert [Tagged.is_flexible(version) for version in Tagged.versions] == [False, True]


def test_a_message_without_flexible_versions_is_never_flexible() -> None:
    class Plain(Data, versions="3"):
        number: int32

    assert (Plain.versions, Plain.flexible_from, Plain.is_flexible(3)) == (range(3, 4), None, False)


def test_fields_default_to_zero_values_and_none_when_nullable() -> None:
    empty = Everything()  # pyright: ignore[reportCallIssue]
    assert (empty.flag, empty.large, empty.ratio, empty.text, empty.blob) == (False, 0, 0.0, "", b"")
    assert (empty.identifier, empty.numbers, empty.point) == (UUID(int=0), [], Point(x=5, label=None))
    assert (empty.blob_or_none, empty.flags, empty.point_or_none, empty.late) == (None, None, None, -1)


def test_default_lists_are_not_shared() -> None:
    first, second = Everything(), Everything()  # pyright: ignore[reportCallIssue]
    first.numbers.append(1)
    assert second.numbers == []


def test_equality_compares_class_and_values() -> None:
    assert Point(x=1) == Point(x=1)
    assert Point(x=1) != Point(x=2)
    assert Point() != 5
    assert Tagged(name="a") != everything()


def test_repr_shows_every_field() -> None:
    assert repr(Point(x=1, label="p")) == "Point(x=1, label='p')"


def test_messages_have_no_room_for_unknown_attributes() -> None:
    with pytest.raises(AttributeError):
        Point().z = 1  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        Point(z=1)  # pyright: ignore[reportCallIssue]


def test_a_field_may_not_hide_what_every_message_has() -> None:
    with pytest.raises(TypeError, match=r"Clash\.api_key has the name of an attribute"):

        class Clash(Request, key=1, versions="0"):  # pyright: ignore[reportUnusedClass]
            api_key: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]


@pytest.mark.parametrize("version", Everything.versions)
def test_every_kind_of_field_survives_a_round_trip(version: int) -> None:
    message = everything()
    assert decode(Everything, version, encode(message, version)) == message


@pytest.mark.parametrize("version", Everything.versions)
def test_nulls_survive_a_round_trip(version: int) -> None:
    message = everything(blob_or_none=None, flags=None, point_or_none=None, points=None if version else [])
    assert decode(Everything, version, encode(message, version)) == message


@pytest.mark.parametrize("version", Everything.versions)
@pytest.mark.parametrize("count", [126, 127, 128, 20_000])
def test_lengths_beyond_one_byte_survive_a_round_trip(version: int, count: int) -> None:
    message = everything(
        text="t" * count,
        blob=b"b" * count,
        numbers=list(range(count)),
        flags=[True] * count,
        names=["n"] * count,
        points=[Point()] * count,
    )
    assert decode(Everything, version, encode(message, version)) == message


def test_fields_outside_the_version_are_neither_written_nor_read() -> None:
    message = everything(late=4, early="e")
    assert decode(Everything, 1, encode(message, 1)) == everything(late=-1, early="e")
    assert decode(Everything, 3, encode(message, 3)) == everything(late=4, early="")


def test_any_nonzero_byte_is_true() -> None:
    class Flag(Data, versions="0"):
        flag: bool

    assert decode(Flag, 0, b"\xff").flag is True


def test_decoding_starts_at_the_given_position_of_any_buffer() -> None:
    data = b"header" + encode(everything(), 2)
    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(data))):
        assert decode(Everything, 2, buffer, 6) == everything()


def test_versions_that_are_not_declared_are_refused() -> None:
    with pytest.raises(ProtocolError, match="Tagged has no version 2"):
        decode(Tagged, 2, b"")
    with pytest.raises(ProtocolError, match="Tagged has no version -1"):
        encode(Tagged(), -1)


def test_tagged_fields_are_written_only_when_they_differ_from_their_default() -> None:
    assert encode(Tagged(name="a", number=7, point=Point(), points=[]), 1) == b"\x02a\x00"
    assert encode(Tagged(number=8), 1) == b"\x01\x01" + b"\x00\x04\x00\x00\x00\x08"
    assert encode(Tagged(number=8, text="t"), 0) == b"\x00\x00"


@pytest.mark.parametrize(
    "message",
    [
        Tagged(number=8),
        Tagged(text=""),
        Tagged(point=Point(x=6)),
        Tagged(points=[Point(), Point(label="l" * 200)]),
        Tagged(name="n", number=-1, text="t", point=Point(label="p"), points=[Point()]),
    ],
)
def test_tagged_fields_survive_a_round_trip(message: Tagged) -> None:
    assert decode(Tagged, 1, encode(message, 1)) == message


def test_unknown_tagged_fields_are_skipped_at_every_level() -> None:
    unknown = b"\x01\x81\x01\x03abc"
    point = b"\x06\x00" + unknown
    data = b"\x02a" + b"\x03" + b"\x02" + bytes([len(point)]) + point + b"\x05\x00" + b"\x80\x10\x01z"
    assert decode(Tagged, 1, data) == Tagged(name="a", point=Point(x=6))


def test_more_tagged_fields_than_one_byte_can_count_are_skipped() -> None:
    count = b"\xc8\x01"
    assert decode(Tagged, 1, b"\x01" + count + b"\x09\x01z" * 200) == Tagged()
    point = b"\x06\x00" + count + b"\x09\x01z" * 200
    data = b"\x01\x01\x02" + bytes([len(point) & 0x7F | 0x80, len(point) >> 7]) + point
    assert decode(Tagged, 1, data) == Tagged(point=Point(x=6))


def test_tagged_fields_are_accepted_in_any_order_and_the_last_of_equals_counts() -> None:
    data = b"\x01\x03" + b"\x01\x02\x02t" + b"\x00\x04\x00\x00\x00\x01" + b"\x00\x04\x00\x00\x00\x02"
    assert decode(Tagged, 1, data) == Tagged(number=2, text="t")


@pytest.mark.parametrize("version", Carrier.versions)
def test_records_are_read_as_a_view_of_the_input(version: int) -> None:
    buffer = bytearray(encode(Carrier(slices=[Slice(index=1, records=b"abc")], key_material=b"k"), version))
    message = decode(Carrier, version, memoryview(buffer))

    records = message.slices[0].records
    assert isinstance(records, memoryview)
    records[0] = ord("X")
    assert b"Xbc" in buffer
    assert type(message.key_material) is bytes, "bytes are copied, for they outlive the input"


def test_records_are_a_view_of_bytes_too() -> None:
    data = encode(Carrier(slices=[Slice(index=1, records=memoryview(b"abc"))]), 1)
    assert isinstance(decode(Carrier, 1, data).slices[0].records, memoryview)


@pytest.mark.parametrize("version", Carrier.versions)
@pytest.mark.parametrize("size", [0, 5, 300])
def test_records_that_are_no_bytes_are_handed_on_in_their_place(version: int, size: int) -> None:
    first, second = FileRange(size), FileRange(7)
    message = Carrier(
        slices=[
            Slice(index=0, records=b"inline"),
            Slice(index=1, records=first, note="n"),
            Slice(index=2, records=second),
            Slice(index=3, records=None),
        ]
    )
    out = bytearray(b"header")
    parts = encode_parts(message, version, out)

    assert parts[0] is out
    assert [part for part in parts if isinstance(part, FileRange)] == [first, second]
    joined = b"".join(b"r" * len(part) if isinstance(part, FileRange) else part for part in parts)
    decoded = decode(Carrier, version, joined, len(b"header"))
    assert [part.records for part in decoded.slices] == [b"inline", b"r" * size, b"r" * 7, None]
    assert decoded.end == 9


def test_encode_refuses_records_that_are_no_bytes() -> None:
    with pytest.raises(AssertionError, match="encode_parts"):
        encode(Carrier(slices=[Slice(index=1, records=FileRange(3))]), 1)
