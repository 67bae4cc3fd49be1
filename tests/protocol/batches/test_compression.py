import gzip
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
from aiokafka.codec import (
    gzip_decode,
    gzip_encode,
    lz4_decode,
    lz4_encode,
    snappy_decode,
    snappy_encode,
    zstd_decode,
    zstd_encode,
)
from backports import zstd
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches.compression import (
    FRAMES_MAX,
    PART_BYTES,
    Codec,
    DecompressedTooLarge,
    UnsupportedCodec,
    compress,
    compressor,
    decompress,
    decompress_in_parts,
)

MIB = 1 << 20
COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
TEXT = b"".join(b"%d,order-%d\n" % (number, number * 7) for number in range(10_000))

DATA = st.binary(max_size=300) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=50), st.integers(0, 9_000)
)


def zstd_without_size(data: bytes) -> bytes:
    compressor = zstd.ZstdCompressor()
    return compressor.compress(data) + compressor.flush()


def lz4_linked(data: bytes) -> bytes:
    return lz4.frame.compress(data, block_linked=True, content_checksum=True, store_size=False)


def snappy_raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


@given(data=DATA, codec=st.sampled_from(Codec))
@example(data=TEXT, codec=Codec.SNAPPY)
def test_compressed_data_survives_a_round_trip(data: bytes, codec: Codec) -> None:
    compressed = compress(codec, memoryview(data))

    assert decompress(codec, memoryview(compressed), len(data)) == data


def packed_in_parts(codec: Codec, parts: list[bytes]) -> bytes:
    compressing = compressor(codec)
    return b"".join([*map(compressing.compress, parts), compressing.flush()])


def unpacked_in_parts(codec: Codec, data: bytes, bytes_max: int) -> bytes:
    parts = [bytes(part) for part in decompress_in_parts(codec, memoryview(data), bytes_max)]
    assert all(0 < len(part) <= PART_BYTES for part in parts)
    return b"".join(parts)


@settings(max_examples=50)
@given(parts=st.lists(DATA, max_size=4), codec=st.sampled_from(COMPRESSING))
@example(parts=[TEXT, b"", TEXT], codec=Codec.SNAPPY)
@example(parts=[], codec=Codec.LZ4)
@example(parts=[bytes(PART_BYTES)], codec=Codec.GZIP)
@example(parts=[bytes(2 * PART_BYTES + 1)], codec=Codec.GZIP)
def test_parts_are_compressed_and_decompressed_like_the_whole(parts: list[bytes], codec: Codec) -> None:
    data = b"".join(parts)
    compressed = packed_in_parts(codec, parts)

    assert decompress(codec, compressed, len(data)) == data
    assert unpacked_in_parts(codec, compressed, len(data)) == data
    assert unpacked_in_parts(codec, compress(codec, data), len(data)) == data
    if data:
        with pytest.raises(DecompressedTooLarge):
            unpacked_in_parts(codec, compressed, len(data) - 1)
    if data or codec != Codec.SNAPPY:  # as below
        decode = {Codec.GZIP: gzip_decode, Codec.SNAPPY: snappy_decode, Codec.LZ4: lz4_decode, Codec.ZSTD: zstd_decode}
        assert decode[codec](compressed) == data


@settings(max_examples=200)
@given(
    codec=st.sampled_from(COMPRESSING),
    position=st.floats(0, 1, exclude_max=True),
    bits=st.integers(0, 255),
    end=st.floats(0, 1) | st.just(1.0),
    tail=st.binary(max_size=20),
    is_raw=st.booleans(),
)
def test_damaged_bytes_get_the_same_answer_in_parts(
    codec: Codec, position: float, bits: int, end: float, tail: bytes, is_raw: bool
) -> None:
    content = TEXT + bytes(3 * PART_BYTES)
    damaged = bytearray(snappy_raw(content) if is_raw and codec == Codec.SNAPPY else compress(codec, content))
    damaged[int(position * len(damaged))] ^= bits
    del damaged[int(end * len(damaged)) :]
    damaged += tail

    assert _outcome(lambda: unpacked_in_parts(codec, bytes(damaged), MIB)) == _outcome(
        lambda: decompress(codec, bytes(damaged), MIB)
    )


def _outcome(read: Callable[[], bytes]) -> bytes | ErrorCode:
    try:
        return read()
    except CorruptBatch as error:
        return error.code


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_level_changes_the_bytes_and_not_the_content(codec: Codec) -> None:
    fast, small = compress(codec, TEXT, 1), compress(codec, TEXT, 9)

    assert fast != small
    assert decompress(codec, fast, len(TEXT)) == decompress(codec, small, len(TEXT)) == TEXT


@settings(max_examples=50)
@given(data=DATA)
@example(data=TEXT)
def test_another_client_reads_what_we_write(data: bytes) -> None:
    assert gzip_decode(compress(Codec.GZIP, data)) == data
    assert lz4_decode(compress(Codec.LZ4, data)) == data
    assert zstd_decode(compress(Codec.ZSTD, data)) == data
    if data:  # its reader takes an empty xerial stream for a raw block
        assert snappy_decode(compress(Codec.SNAPPY, data)) == data


@settings(max_examples=50)
@given(data=DATA)
@example(data=TEXT)
def test_we_read_what_another_client_writes(data: bytes) -> None:
    assert decompress(Codec.GZIP, gzip_encode(data), len(data)) == data
    assert decompress(Codec.LZ4, lz4_encode(data), len(data)) == data
    assert decompress(Codec.ZSTD, zstd_encode(data), len(data)) == data
    assert decompress(Codec.SNAPPY, snappy_encode(data), len(data)) == data
    assert decompress(Codec.SNAPPY, bytes(snappy_encode(data, xerial_compatible=False)), len(data)) == data


@settings(max_examples=50)
@given(data=DATA)
@example(data=TEXT)
def test_we_read_the_forms_that_no_client_here_writes(data: bytes) -> None:
    assert decompress(Codec.ZSTD, zstd_without_size(data), len(data)) == data
    assert decompress(Codec.LZ4, lz4_linked(data), len(data)) == data
    assert decompress(Codec.SNAPPY, snappy_raw(data), len(data)) == data


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_frames_that_follow_each_other_are_one_content(codec: Codec) -> None:
    parts = [b"first", b"", TEXT]

    joined = b"".join(compress(codec, part) for part in parts)

    assert decompress(codec, joined, MIB) == b"first" + TEXT
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, joined, len(TEXT) + 4)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_more_frames_than_anyone_writes_are_refused(codec: Codec) -> None:
    frame = compress(codec, b"x")

    assert decompress(codec, frame * FRAMES_MAX, MIB) == b"x" * FRAMES_MAX
    with pytest.raises(CorruptBatch, match=f"more than {FRAMES_MAX}"):
        decompress(codec, frame * (FRAMES_MAX + 1), MIB)


def test_lz4_blocks_are_independent_because_the_java_client_reads_no_others() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))

    assert info["block_linked"] is False


def test_snappy_is_written_in_xerials_frame_of_32_kib_blocks() -> None:
    compressed = compress(Codec.SNAPPY, TEXT[:40_000])

    assert compressed.startswith(XERIAL)
    (length,) = struct.unpack_from(">I", compressed, 16)
    assert cramjam.snappy.decompress_raw_len(compressed[20 : 20 + length]) == 32 * 1024


BOMBS: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "none": (Codec.NONE, bytes),
    "gzip": (Codec.GZIP, gzip.compress),
    "gzip members": (Codec.GZIP, lambda data: gzip.compress(data[: MIB // 2]) * 8),
    "snappy xerial": (Codec.SNAPPY, lambda data: compress(Codec.SNAPPY, data)),
    "snappy raw": (Codec.SNAPPY, snappy_raw),
    "lz4": (Codec.LZ4, lambda data: compress(Codec.LZ4, data)),
    "lz4 without size": (Codec.LZ4, lz4_linked),
    "zstd": (Codec.ZSTD, lambda data: compress(Codec.ZSTD, data)),
    "zstd without size": (Codec.ZSTD, zstd_without_size),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_fills_memory(name: str) -> None:
    codec, pack = BOMBS[name]
    bomb = pack(bytes(32 * MIB))

    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLarge, match=f"limit of {MIB} bytes") as caught:
            decompress(codec, bomb, MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * MIB
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_itself_is_allowed(codec: Codec) -> None:
    compressed = compress(codec, TEXT)

    assert decompress(codec, compressed, len(TEXT)) == TEXT
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, compressed, len(TEXT) - 1)


def test_snappy_that_claims_4_gib_in_five_bytes_is_refused() -> None:
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f", 100 * MIB)


@pytest.mark.parametrize("name", [name for name in BOMBS if name not in ("none", "gzip members")])
def test_every_truncation_is_refused(name: str) -> None:
    codec, pack = BOMBS[name]
    compressed = pack(TEXT[:3_000])
    # A xerial stream may end after its header: it is the empty one.
    for length in set(range(len(compressed))) - ({len(XERIAL)} if compressed.startswith(XERIAL) else set()):
        with pytest.raises(CorruptBatch) as caught:
            decompress(codec, compressed[:length], MIB)
        assert caught.value.code is ErrorCode.INVALID_RECORD


@settings(max_examples=300)
@given(
    codec=st.sampled_from(COMPRESSING),
    data=st.binary(max_size=400),
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4),
    tail=st.binary(max_size=4),
)
def test_damaged_input_is_refused_or_bounded(
    codec: Codec, data: bytes, edits: list[tuple[int, int]], tail: bytes
) -> None:
    damaged = bytearray(compress(codec, data) + tail)
    for position, byte in edits:
        damaged[position % len(damaged)] = byte
    with suppress(CorruptBatch):
        assert len(decompress(codec, damaged, 1_000)) <= 1_000


@settings(max_examples=300)
@given(
    codec=st.sampled_from(COMPRESSING),
    magic=st.sampled_from([b"", XERIAL, b"\x1f\x8b\x08", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"]),
    data=st.binary(max_size=100),
)
def test_random_input_is_refused_or_bounded(codec: Codec, magic: bytes, data: bytes) -> None:
    with suppress(CorruptBatch):
        assert len(decompress(codec, magic + data, 1_000)) <= 1_000


@pytest.mark.parametrize("length", [5, 2**31, 2**32 - 1])
def test_a_xerial_block_longer_than_its_stream_is_refused(length: int) -> None:
    with pytest.raises(CorruptBatch, match="inside a snappy block"):
        decompress(Codec.SNAPPY, XERIAL + struct.pack(">I", length) + b"abcd", MIB)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_unsupported(codec: int) -> None:
    for call in (lambda: compress(codec, b"x"), lambda: decompress(codec, b"x", 10)):
        with pytest.raises(UnsupportedCodec, match=f"codec {codec} is not known") as caught:
            call()
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
