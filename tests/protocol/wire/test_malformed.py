"""Hostile bytes: whatever arrives, a message or ProtocolError comes out, and nothing is allocated on a promise."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import ProtocolError
from headwater.protocol.wire.codec import Data, Records, Request, Response, Struct, decode, encode, field, int8, int32
from headwater.protocol.wire.primitives import read_unsigned_varint, write_unsigned_varint
from tests.protocol.kio_oracle import MESSAGE_VERSIONS, MESSAGES, filled
from tests.support.cases import in_one_test

Message = type[Request | Response]

each_version = in_one_test(["message", "version"], MESSAGE_VERSIONS)


class Inner(Struct):
    number: int8


class Probe(Data, versions="0-1", flexible="1+"):
    text: str


class NullableProbe(Data, versions="0-1", flexible="1+"):
    text: str | None


class BytesProbe(Data, versions="0-1", flexible="1+"):
    blob: bytes


class RecordsProbe(Data, versions="0-1", flexible="1+"):
    records: Records | None


class ArrayProbe(Data, versions="0-1", flexible="1+"):
    structs: list[Inner]


class NumbersProbe(Data, versions="0-1", flexible="1+"):
    numbers: list[int32] | None


class FewProbe(Data, versions="0"):
    elements_max = 3

    names: list[str]
    structs: list[Inner]


class EmptyStruct(Struct):
    late: int8 = field(versions="1+")


class EmptyProbe(Data, versions="0-1"):
    structs: list[EmptyStruct]


class TaggedProbe(Data, versions="0", flexible="0+"):
    inner: Inner = field(tag=0)


@pytest.mark.parametrize(
    ("message", "version", "data", "reason"),
    [
        (Probe, 0, b"", "ends early"),
        (Probe, 0, b"\x00\x05abc", "Probe.text runs past the end"),
        (Probe, 0, b"\x00\x01ab", "1 bytes are left over"),
        (Probe, 0, b"\xff\xff", "Probe.text is null"),
        (Probe, 0, b"\xff\xfe", "Probe.text runs past the end"),
        (Probe, 0, b"\x00\x02\xc3\x28", "utf-8"),
        (Probe, 0, b"\x00\x03\xed\xa0\x80", "utf-8"),
        (Probe, 1, b"", "ends early"),
        (Probe, 1, b"\x00\x00", "Probe.text is null"),
        (Probe, 1, b"\x06abc\x00", "Probe.text runs past the end"),
        (Probe, 1, b"\x02\xff\x00", "utf-8"),
        (Probe, 1, b"\x02a", "ends early"),
        (Probe, 1, b"\x02a\x00\x00", "1 bytes are left over"),
        (Probe, 1, b"\x80", "ends early"),
        (Probe, 1, b"\x80\x80\x80\x80\x80\x01", "varint exceeds 32 bits"),
        (Probe, 1, b"\xff\xff\xff\xff\x10", "varint exceeds 32 bits"),
        (Probe, 1, b"\xff\xff\xff\xff\x0f", "Probe.text is longer than 32767 bytes"),
        (Probe, 1, b"\x81\x80\x02" + bytes(32769), "Probe.text is longer than 32767 bytes"),
        (Probe, 1, b"\x02a\x01\x00\x7fz", "a tagged field runs past the end"),
        (Probe, 1, b"\x02a\xff\xff\xff\xff\x0f", "ends early"),
        (Probe, 1, b"\x02a\x01\x00\xff\xff\xff\xff\x7f", "varint exceeds 32 bits"),
        (NullableProbe, 0, b"\xff\xfe", "NullableProbe.text runs past the end"),
        (NullableProbe, 0, b"\x80\x00", "NullableProbe.text runs past the end"),
        (NullableProbe, 1, b"\x03a", "NullableProbe.text runs past the end"),
        (NullableProbe, 1, b"\x81\x80\x02" + bytes(32769), "NullableProbe.text is longer than 32767 bytes"),
        (BytesProbe, 0, b"\xff\xff\xff\xff", "BytesProbe.blob is null"),
        (BytesProbe, 0, b"\x7f\xff\xff\xff", "BytesProbe.blob runs past the end"),
        (BytesProbe, 1, b"\x00\x00", "BytesProbe.blob is null"),
        (RecordsProbe, 0, b"\xff\xff\xff\xfe", "RecordsProbe.records runs past the end"),
        (RecordsProbe, 0, b"\x00\x00\x00\x02a", "RecordsProbe.records runs past the end"),
        (RecordsProbe, 1, b"\xff\xff\xff\xff\x0f", "RecordsProbe.records runs past the end"),
        (ArrayProbe, 0, b"\xff\xff\xff\xff", "ArrayProbe.structs is null"),
        (ArrayProbe, 0, b"\x00\x00\x00\x02\x01", "more elements than bytes"),
        (ArrayProbe, 0, b"\x7f\xff\xff\xff\x01", "more elements than bytes"),
        (ArrayProbe, 1, b"\x00\x00", "ArrayProbe.structs is null"),
        (ArrayProbe, 1, b"\xff\xff\xff\xff\x0f\x00", "more elements than bytes"),
        (NumbersProbe, 0, b"\xff\xff\xff\xfe", "NumbersProbe.numbers"),
        (NumbersProbe, 0, b"\x00\x00\x00\x02\x00\x00\x00\x01\x00", "more elements than bytes"),
        (NumbersProbe, 1, b"\xff\xff\xff\xff\x0f\x00\x00\x00\x00", "more elements than bytes"),
        (EmptyProbe, 0, b"\x7f\xff\xff\xff", "more elements than bytes"),
        (TaggedProbe, 0, b"\x01\x00\x01\x05\x00", "TaggedProbe.inner does not fill its tagged field"),
        (TaggedProbe, 0, b"\x01\x00\x03\x05\x00\x00", "TaggedProbe.inner does not fill its tagged field"),
        (TaggedProbe, 0, b"\x01\x00\x02\x05", "a tagged field runs past the end"),
    ],
)
def test_malformed_bytes_are_refused_with_the_message_and_the_reason(
    message: type[Data], version: int, data: bytes, reason: str
) -> None:
    for buffer in (data, memoryview(bytearray(data))):
        with pytest.raises(ProtocolError, match=reason) as refused:
            decode(message, version, buffer)
        assert str(refused.value).startswith(f"{message.__name__} v{version}: ")


def test_all_arrays_together_have_as_many_elements_as_the_message_allows() -> None:
    inner = Inner(number=1)
    most = FewProbe(names=["a", "b"], structs=[inner])
    assert decode(FewProbe, 0, encode(most, 0)) == most
    for more in (
        FewProbe(names=["a", "b"], structs=[inner, inner]),
        FewProbe(names=["a", "b", "c", "d"], structs=[]),
    ):
        with pytest.raises(ProtocolError, match="more than 3 elements in all arrays together"):
            decode(FewProbe, 0, encode(more, 0))


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (ArrayProbe, b"\x7f\xff\xff\xff" + b"\x01" * 100),
        (NumbersProbe, b"\x7f\xff\xff\xff" + b"\x01" * 100),
        (BytesProbe, b"\x7f\xff\xff\xff" + b"\x01" * 100),
        (RecordsProbe, b"\x7f\xff\xff\xff" + b"\x01" * 100),
        (EmptyProbe, b"\x7f\xff\xff\xff" + b"\x01" * 100),
    ],
)
def test_a_huge_count_allocates_nothing(message: type[Data], data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(message, 0, data)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(message, 0, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * 1024


@each_version
def test_every_truncation_is_refused(message: Message, version: int) -> None:
    data = encode(filled(message, version), version)
    assert encode(decode(message, version, data), version) == data
    for size in range(len(data)):
        with pytest.raises(ProtocolError, match=message.__name__):
            decode(message, version, data[:size])


@each_version
def test_trailing_bytes_are_refused(message: Message, version: int) -> None:
    data = encode(filled(message, version), version)
    with pytest.raises(ProtocolError, match="1 bytes are left over"):
        decode(message, version, data + b"\x00")


@each_version
def test_trailing_bytes_are_ignored_where_the_caller_allows_them(message: Message, version: int) -> None:
    data = encode(filled(message, version), version)
    assert decode(message, version, data + b"\x00", exact=False) == decode(message, version, data)


@each_version
@settings(max_examples=12)
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=5)), min_size=1, max_size=4))
def test_mutated_messages_are_read_or_refused(message: Message, version: int, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(encode(filled(message, version), version))
    for position, replacement in changes:
        start = position % (len(data) + 1)
        data[start : start + len(replacement)] = replacement
    read_or_refuse(message, version, bytes(data))


@in_one_test(["message"], zip(MESSAGES))
def test_every_byte_may_hold_any_extreme(message: Message) -> None:
    version = message.versions[-1]
    data = encode(filled(message, version), version)
    for position in range(len(data)):
        for byte in (0x00, 0x7F, 0x80, 0xFF):
            read_or_refuse(message, version, data[:position] + bytes([byte]) + data[position + 1 :])


@settings(max_examples=400)
@given(chosen=st.sampled_from(MESSAGE_VERSIONS), data=st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(chosen: tuple[Message, int], data: bytes) -> None:
    message, version = chosen
    read_or_refuse(message, version, data)


def read_or_refuse(message: Message, version: int, data: bytes) -> None:
    try:
        read = decode(message, version, data)
    except ProtocolError:
        return
    assert decode(message, version, encode(read, version)) == read


@given(value=st.integers(0, 2**32 - 1), prefix=st.binary(max_size=3))
def test_unsigned_varints_survive_a_round_trip(value: int, prefix: bytes) -> None:
    out = bytearray(prefix)
    write_unsigned_varint(out, value)
    assert read_unsigned_varint(out, len(prefix)) == (value, len(out))
