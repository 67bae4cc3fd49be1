import struct
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import compression, records
from headwater.protocol.batches.batch import HEADER_SIZE, BatchHeader, Marker
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from tests.support.cases import in_one_test
from tests.support.protocol.record_variants import CONTENTS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas with a deprecated function
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

NOW = 1_700_000_000_000
BYTES_MAX = 1 << 20
READERS: list[Any] = [AiokafkaBatch, KafkaPythonBatch]
BUILDERS: list[Any] = [AiokafkaBuilder, KafkaPythonBuilder]
# kafka-python finds no library for snappy and zstd among our dependencies.
SHARED_CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4]

RECORD_LISTS = st.lists(CONTENTS, min_size=1, max_size=6).map(
    lambda contents: [Record(index, *content) for index, content in enumerate(contents)]
)


def two_records() -> list[Record]:
    return [Record(0, NOW, b"k", b"v", (("h", b"x"),)), Record(1, NOW + 7, None, None)]


def read(batch: bytes | bytearray | memoryview) -> tuple[BatchHeader, list[Record]]:
    header = batches.read_header(batch)
    batches.verify(batch, header)
    return header, batches.read_records(batch, header, BYTES_MAX)


def as_records(foreign: Any) -> list[Record]:
    return [Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in foreign]


def reseal(batch: bytearray, position: int, layout: str, value: int) -> bytearray:
    """The batch with one header field changed and the checksum made right again."""
    struct.pack_into(layout, batch, position, value)
    batches.set_max_timestamp(batch, batches.read_header(batch).max_timestamp)
    return batch


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_are_encoded_already_become_the_same_batch(codec: Codec, transactional: bool) -> None:
    made = two_records()
    whole = batches.build(
        made, codec=codec, producer_id=7, producer_epoch=1, base_sequence=5, transactional=transactional
    )
    encoded = records.encode(made, 0, made[0].timestamp, HEADER_SIZE)
    batches.complete(
        encoded,
        record_count=len(made),
        base_timestamp=made[0].timestamp,
        max_timestamp=max(record.timestamp for record in made),
        codec=codec,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        transactional=transactional,
    )

    assert encoded == whole


@settings(max_examples=60)
@given(
    made=RECORD_LISTS,
    codec=st.sampled_from(SHARED_CODECS),
    base_offset=st.integers(0, 2**40),
    producer_id=st.integers(-1, 2**63 - 1),
    transactional=st.booleans(),
)
def test_other_clients_read_what_we_build(
    made: list[Record], codec: Codec, base_offset: int, producer_id: int, transactional: bool
) -> None:
    moved = batches.build(made, codec=codec, producer_id=producer_id, transactional=transactional)
    assert batches.patch(moved, batches.read_header(moved), base_offset, 3) == batches.read_header(moved)
    expected = [Record(base_offset + each.offset, each.timestamp, each.key, each.value, each.headers) for each in made]

    for reader in READERS:
        theirs = reader(bytes(moved))
        assert theirs.validate_crc()
        assert theirs.base_offset == base_offset
        assert (theirs.is_transactional, theirs.is_control_batch) == (transactional, False)
        assert theirs.producer_id == producer_id
        assert theirs.next_offset == base_offset + len(made)
        assert as_records(theirs) == expected
    header, ours = read(moved)
    assert ours == expected
    assert header.size == len(moved)
    assert header.leader_epoch == 3


@settings(max_examples=60)
@given(made=RECORD_LISTS, codec=st.sampled_from(SHARED_CODECS), transactional=st.booleans())
def test_we_read_what_other_clients_build(made: list[Record], codec: Codec, transactional: bool) -> None:
    for builder in BUILDERS:
        theirs = builder(
            magic=2,
            compression_type=int(codec),
            is_transactional=int(transactional),
            producer_id=77,
            producer_epoch=2,
            base_sequence=5,
            batch_size=BYTES_MAX,
        )
        for each in made:
            theirs.append(each.offset, each.timestamp, each.key, each.value, list(each.headers))

        batch = bytes(theirs.build())
        header, ours = read(batch)

        batches.verify_produced(batch, header)
        assert ours == made
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 5)
        assert header.is_transactional is transactional
        assert header.max_timestamp == max(each.timestamp for each in made)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_comes_back(codec: Codec) -> None:
    header, ours = read(batches.build(two_records(), codec=codec, level=3))

    assert header.codec == codec
    assert ours == two_records()


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.ZSTD])
def test_aiokafka_reads_the_codecs_that_kafka_python_cannot(codec: Codec) -> None:
    assert as_records(AiokafkaBatch(bytes(batches.build(two_records(), codec=codec)))) == two_records()


def test_the_header_says_what_the_batch_was_built_with() -> None:
    batch = batches.build(
        two_records(),
        leader_epoch=4,
        codec=Codec.ZSTD,
        producer_id=9,
        producer_epoch=1,
        base_sequence=0,
        transactional=True,
    )
    header = batches.read_header(b"before" + batch, 6)

    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        leader_epoch=4,
        magic=2,
        crc=header.crc,
        attributes=0x14,
        last_offset_delta=1,
        base_timestamp=NOW,
        max_timestamp=NOW + 7,
        producer_id=9,
        producer_epoch=1,
        base_sequence=0,
        record_count=2,
    )
    assert (header.size, header.last_offset, header.next_offset) == (len(batch), 1, 2)
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (True, False, False)
    assert header.has_producer_id
    assert header.delete_horizon_ms is None


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(-1, 4, -1), (0, 4, 4), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3)],
)
def test_sequences_wrap_to_zero(base_sequence: int, last_offset_delta: int, last_sequence: int) -> None:
    header = batches.read_header(batches.build([], last_offset_delta=last_offset_delta, base_sequence=base_sequence))

    assert header.last_sequence == last_sequence


def test_patching_moves_the_records_and_keeps_the_checksum() -> None:
    batch = batches.build(two_records(), leader_epoch=0)
    before = batches.read_header(batch)

    patched = batches.patch(memoryview(batch), before, 1_000, 12)

    header, ours = read(batch)
    assert header == patched
    assert (header.base_offset, header.leader_epoch, header.crc) == (1_000, 12, before.crc)
    assert [record.offset for record in ours] == [1_000, 1_001]


def test_log_append_time_replaces_every_timestamp() -> None:
    batch = batches.build(two_records(), codec=Codec.LZ4)

    batches.set_log_append_time(memoryview(batch), NOW + 99)

    header, ours = read(batch)
    assert header.is_log_append_time
    assert header.codec == Codec.LZ4
    assert header.max_timestamp == NOW + 99
    assert [record.timestamp for record in ours] == [NOW + 99, NOW + 99]
    assert [each.timestamp for each in AiokafkaBatch(bytes(batch))] == [NOW + 99, NOW + 99]


def test_a_batch_may_be_built_with_log_append_time() -> None:
    built = batches.build(two_records(), log_append_time_ms=NOW + 99)
    batch = batches.build(two_records())
    batches.set_log_append_time(batch, NOW + 99)

    assert built == batch


def test_a_compacted_batch_keeps_its_range_of_offsets() -> None:
    kept = [Record(103, NOW, b"k", None), Record(107, NOW - 5, b"l", b"v")]

    batch = batches.build(kept, base_offset=100, last_offset_delta=9, delete_horizon_ms=NOW + 1_000)

    header, ours = read(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (100, 109, 2)
    assert header.delete_horizon_ms == NOW + 1_000
    assert header.max_timestamp == NOW
    assert ours == kept
    assert as_records(KafkaPythonBatch(bytes(batch))) == kept


def test_a_batch_may_be_left_without_records() -> None:
    batch = batches.build(
        [], base_offset=100, last_offset_delta=9, codec=Codec.GZIP, producer_id=5, base_sequence=40, max_timestamp=NOW
    )

    header, ours = read(batch)

    assert ours == []
    assert len(batch) == HEADER_SIZE
    assert (header.codec, header.record_count, header.next_offset) == (Codec.NONE, 0, 110)
    assert (header.base_timestamp, header.max_timestamp) == (-1, NOW)
    assert (header.producer_id, header.last_sequence) == (5, 49)


def test_records_may_be_stored_in_another_codec() -> None:
    batch = batches.build(two_records(), base_offset=0, codec=Codec.GZIP, producer_id=3, transactional=True)
    header = batches.read_header(batch)
    payload = batches.payload(batch, header, BYTES_MAX)

    for codec in Codec:
        again = batches.with_payload(memoryview(batch), compression.compress(codec, payload), codec)

        assert again == batches.build(two_records(), codec=codec, producer_id=3, transactional=True)


def test_a_payload_over_the_limit_is_refused() -> None:
    batch = batches.build([Record(0, 0, None, bytes(5_000))], codec=Codec.ZSTD)

    with pytest.raises(CorruptBatch, match="limit of 4000 bytes"):
        batches.read_records(batch, batches.read_header(batch), 4_000)


@settings(max_examples=200)
@given(position=st.integers(12, 200), flip=st.integers(1, 255))
@example(position=16, flip=1)
def test_a_changed_byte_never_passes_for_the_batch(position: int, flip: int) -> None:
    batch = batches.build(two_records())
    position %= len(batch)
    if position in range(8) or position in range(12, 16):
        return  # the broker's own fields lie outside of the checksum
    batch[position] ^= flip

    with pytest.raises(CorruptBatch):
        batches.verify(batch, batches.read_header(batch))


@in_one_test(["length"], zip(range(HEADER_SIZE)))
def test_less_than_a_header_is_no_batch(length: int) -> None:
    with pytest.raises(CorruptBatch, match="too few") as caught:
        batches.read_header(bytes(batches.build(two_records()))[:length])
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_exactly_one_batch_is_verified() -> None:
    batch = batches.build(two_records())
    header = batches.read_header(batch)

    for wrong in (batch[:-1], batch + b"\x00", batch + batch):
        with pytest.raises(CorruptBatch, match="exactly one batch") as caught:
            batches.verify(memoryview(wrong), header)
        assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 48])
def test_a_length_that_excludes_the_header_is_corrupt(length: int) -> None:
    batch = batches.build(two_records())
    struct.pack_into(">i", batch, 8, length)

    with pytest.raises(CorruptBatch, match="fewer than its header"):
        batches.verify(batch, batches.read_header(batch))
    with pytest.raises(CorruptBatch, match="fewer than its header"):
        list(batches.iterate(batch))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [34, 100])
def test_the_old_message_formats_are_invalid_and_not_corrupt(magic: int, size: int) -> None:
    message = struct.pack(">qiIb", 0, size - 12, 0, magic) + bytes(size - 17)

    with pytest.raises(CorruptBatch, match=f"message format {magic} is not accepted") as caught:
        batches.verify(message, batches.read_header(message))
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_a_magic_that_never_was_is_corrupt(magic: int) -> None:
    batch = batches.build(two_records())
    struct.pack_into(">b", batch, 16, magic)

    with pytest.raises(CorruptBatch, match=f"magic {magic}") as caught:
        batches.verify(batch, batches.read_header(batch))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("position", "layout", "value", "code"),
    [
        (0, ">q", 5, ErrorCode.INVALID_RECORD),
        (57, ">i", 0, ErrorCode.INVALID_RECORD),
        (57, ">i", -1, ErrorCode.INVALID_RECORD),
        (57, ">i", 3, ErrorCode.INVALID_RECORD),
        (23, ">i", -1, ErrorCode.INVALID_RECORD),
        (23, ">i", 2**31 - 1, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x20, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x08, ErrorCode.INVALID_TIMESTAMP),
        (21, ">h", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (43, ">q", 7, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_clients_header_that_claims_too_much_is_refused(
    position: int, layout: str, value: int, code: ErrorCode
) -> None:
    batch = batches.build(two_records())
    batches.verify_produced(batch, batches.read_header(batch))

    header = batches.read_header(reseal(batch, position, layout, value))

    batches.verify(batch, header)
    with pytest.raises(CorruptBatch) as caught:
        batches.verify_produced(batch, header)
    assert caught.value.code is code


@given(sizes=st.lists(st.integers(0, 30), max_size=4), cut=st.integers(0, 400))
def test_iteration_ends_at_a_partial_batch(sizes: Sequence[int], cut: int) -> None:
    whole = [
        batches.build([Record(offset, 0, None, bytes(size))], base_offset=offset) for offset, size in enumerate(sizes)
    ]
    buffer = b"".join(whole)[:cut]

    found = list(batches.iterate(buffer))

    fitting = [batch for index, batch in enumerate(whole) if sum(map(len, whole[: index + 1])) <= cut]
    assert [view for _, view in found] == fitting
    assert [header.base_offset for header, _ in found] == list(range(len(fitting)))


@pytest.mark.parametrize(("committed", "type_"), [(True, COMMIT_MARKER), (False, ABORT_MARKER)])
def test_a_marker_is_what_other_clients_take_for_one(committed: bool, type_: ControlRecord) -> None:
    marker = Marker(committed, coordinator_epoch=6)

    batch = batches.build_marker(marker, base_offset=50, timestamp_ms=NOW, producer_id=8, producer_epoch=2)

    header, [record] = read(batch)
    assert (header.is_control, header.is_transactional) == (True, True)
    assert (header.base_offset, header.producer_id, header.producer_epoch) == (50, 8, 2)
    assert (header.base_sequence, header.last_sequence) == (-1, -1)
    assert batches.read_marker(record) == marker
    aiokafkas, kafka_pythons = (next(reader(bytes(batch))) for reader in READERS)
    assert ControlRecord.parse(aiokafkas.key) == type_
    assert kafka_pythons.commit is committed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (b"\x00\x00\x00", bytes(6)),
        (b"\xff\xff\x00\x01", bytes(6)),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", bytes(5)),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_a_damaged_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        batches.read_marker(Record(0, NOW, key, value))


def test_control_records_of_other_kinds_end_no_transaction() -> None:
    assert batches.read_marker(Record(0, NOW, b"\x00\x00\x00\x02", None)) is None


def test_a_newer_marker_is_read_by_the_fields_we_know() -> None:
    record = Record(0, NOW, b"\x00\x01\x00\x01more", b"\x00\x01\x00\x00\x00\x09more")

    assert batches.read_marker(record) == Marker(committed=True, coordinator_epoch=9)
