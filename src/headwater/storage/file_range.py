"""What a read hands out: a range of a file instead of its bytes."""

from headwater.storage.disk import File


class FileRange:
    """Whole batches in a file. Holding it keeps the file open, whatever happens to its segment."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
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
