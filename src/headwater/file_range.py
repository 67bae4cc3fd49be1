"""What a read hands out: a range of a file instead of its bytes. Storage makes ranges, listeners send them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class ReadableFile(Protocol):
    """An open file, as far as a sender needs it."""

    @property
    def path(self) -> Path: ...

    def fileno(self) -> int: ...

    def pread(self, length: int, position: int) -> bytes: ...

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """Gives the number of bytes read: fewer than the buffer holds only at the end of the file."""
        ...

    def pread_resident(self, length: int, position: int) -> bytes | None:
        """The bytes if all of them are in the page cache; None if they would have to be read from the disk."""
        ...

    def is_resident(self, position: int, length: int) -> bool:
        """Whether the range is in the page cache."""
        ...

    def warm(self, position: int, length: int) -> None:
        """Bring the range into the page cache; blocks for as long as the disk takes."""
        ...


class FileRange:
    """Whole batches in a file. Holding it keeps the file open, whatever happens to its segment."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: ReadableFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        return self.file.pread(self.length, self.position)

    def read_resident(self) -> bytes | None:
        return self.file.pread_resident(self.length, self.position)


class FileRanges(FileRange):
    """Ranges in this order as one, of one file or of several: at least two."""

    __slots__ = ("ranges",)

    def __init__(self, ranges: Sequence[FileRange]) -> None:
        super().__init__(ranges[0].file, ranges[0].position, sum(each.length for each in ranges))
        self.ranges = ranges

    def fileno(self) -> int:
        raise AssertionError("the ranges are sent one by one")

    def read(self) -> bytes:
        return b"".join([each.read() for each in self.ranges])

    def read_resident(self) -> bytes | None:
        parts: list[bytes] = []
        for each in self.ranges:
            part = each.read_resident()
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)
