"""Walks over the batches of a segment's file: their headers, or whole batches with verified checksums."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from headwater.errors import CorruptBatch, HeadwaterError
from headwater.file_range import ReadableFile
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader

HEADER_BLOCK_BYTES: Final = 16 * 1024
SCAN_BLOCK_BYTES: Final = 4 * 1024 * 1024
# No admitted batch decompresses to more; the bound keeps a damaged one from taking all the memory.
DECOMPRESSED_BYTES_MAX: Final = 1024 * 1024 * 1024
_SPAN: Final = Struct(">qi4xb6xi")


def headers(
    file: ReadableFile, position: int, end: int, block_bytes: int = HEADER_BLOCK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of the batches in [position, end). Only the magic and the length are checked."""
    block, block_start, size = b"", position, 0
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > block_start + len(block):
            # Of large batches a block would hold little more than one header.
            length = HEADER_SIZE if size > block_bytes // 4 else min(block_bytes, end - position)
            block, block_start = file.pread(length, position), position
            if len(block) < HEADER_SIZE:
                return  # the file was cut meanwhile
        header = batches.read_header(block, position - block_start)
        if header.magic != MAGIC or header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"{file.path.name} has no batch at position {position}")
        yield position, header
        size = header.batch_length + LOG_OVERHEAD
        position += size


def spans(file: ReadableFile, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """As `headers`, for cold reads: yields only where each batch begins and ends, and its first and last offset."""
    block, block_start, unpack_from = b"", position, _SPAN.unpack_from
    while position + HEADER_SIZE <= end:
        relative = position - block_start
        if relative + HEADER_SIZE > len(block):
            block, block_start, relative = file.pread(min(HEADER_BLOCK_BYTES, end - position), position), position, 0
            if len(block) < HEADER_SIZE:
                return
        base_offset, batch_length, magic, last_offset_delta = unpack_from(block, relative)
        if magic != MAGIC or batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"{file.path.name} has no batch at position {position}")
        batch_end = position + LOG_OVERHEAD + batch_length
        yield position, batch_end, base_offset, base_offset + last_offset_delta
        position = batch_end


def ends_early(next_offset: int, end_offset: int) -> str:
    """Describes the damage of a segment whose last batches are missing."""
    return f"it ends at offset {next_offset}, and once went on to offset {end_offset}"


class Scan:
    """Iterates over verified batches. Afterwards `position` is where the last valid batch ends, and `problem` says why
    the scan stopped there."""

    def __init__(
        self, file: ReadableFile, position: int, end: int, next_offset: int, limit_offset: int, synced_offset: int = 0
    ) -> None:
        """`synced_offset`: the log once ended there, so no batch crosses it; 0 where compaction may have been."""
        self.position = position
        self.next_offset = next_offset
        self._limit_offset = limit_offset
        self._synced_offset = synced_offset
        self.problem: str | None = None
        self._file = file
        self._end = end
        self._block = memoryview(bytearray(min(SCAN_BLOCK_BYTES, end - position)))
        self._block_start = position
        self._block_end = position

    def __iter__(self) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yields positions, headers and bytes of batches; the bytes are valid until the next step."""
        try:
            while self.position < self._end:
                position = self.position
                header = batches.read_header(self._block, self._have(HEADER_SIZE))
                size = header.batch_length + LOG_OVERHEAD
                start = self._have(size)
                batch = self._block[start : start + size]
                batches.verify(batch, header)
                self._verify_offsets(header)
                self.position = position + size
                self.next_offset = header.next_offset
                yield position, header, batch
        except HeadwaterError as error:
            self.problem = f"{error} at position {self.position}"

    def _verify_offsets(self, header: BatchHeader) -> None:
        # Compaction leaves gaps. It never leaves an offset twice, nor an offset of another segment.
        if not self.next_offset <= header.base_offset <= header.last_offset < self._limit_offset:
            raise CorruptBatch(
                f"offsets {header.base_offset} to {header.last_offset} outside [{self.next_offset}, "
                f"{self._limit_offset})"
            )
        if self.next_offset < self._synced_offset < header.next_offset:
            raise CorruptBatch(f"offset {header.last_offset}, and the log once ended at {self._synced_offset},")

    def _have(self, length: int) -> int:
        """Reads on until the block has `length` bytes from the current position. Returns its index in the block."""
        end = self.position + length
        if end > self._block_end or length < 0:
            available = self._end - self.position
            if not 0 <= length <= available:
                raise CorruptBatch(f"{available} bytes are left of a batch of {length}")
            if length > len(self._block):
                self._block = memoryview(bytearray(length))
            window = self._block[: min(len(self._block), available)]
            self._block_start = self.position
            self._block_end = self.position + self._file.pread_into(window, self.position)
            if end > self._block_end:
                raise CorruptBatch(f"{self._block_end - self.position} bytes are left of a batch of {length}")
        return self.position - self._block_start
