"""Leader epochs: the offset at which each leader began to write. They tell followers and consumers where logs part.

An epoch is in `leader-epoch-checkpoint`, durably, before its first batch is written, so that none is used twice.
"""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headwater.protocol.batches.batch import NO_LEADER_EPOCH
from headwater.storage import checkpoints, names
from headwater.storage.checkpoints import DamagedCheckpoint
from headwater.storage.disk import Disk

NO_EPOCH: Final = NO_LEADER_EPOCH
NO_END_OFFSET: Final = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class LeaderEpochs:
    __slots__ = ("_starts", "is_changed", "latest")

    def __init__(self, starts: Sequence[EpochStart] = ()) -> None:
        self._starts = list(starts)
        self.latest = self._starts[-1].epoch if self._starts else NO_EPOCH
        self.is_changed = False

    @property
    def starts(self) -> Sequence[EpochStart]:
        return self._starts

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`. Removes entries that contradict it."""
        if epoch < 0 or (epoch == self.latest and start_offset >= self._starts[-1].start_offset):
            return
        kept = [start for start in self._starts if start.epoch < epoch and start.start_offset < start_offset]
        self._replace([*kept, EpochStart(epoch, start_offset)])

    def end_offset(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The latest known epoch up to `epoch`, and its end offset, as OffsetForLeaderEpoch answers."""
        if epoch != NO_EPOCH and epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        if epoch < 0 or epoch > self.latest:
            return EpochEnd(NO_EPOCH, NO_END_OFFSET)
        number = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        known = self._starts[number - 1].epoch if number else epoch
        return EpochEnd(known, self._starts[number].start_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written."""
        number = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        return self._starts[number - 1].epoch if number else NO_EPOCH

    def truncate_end(self, offset: int) -> None:
        """The log now ends at `offset`."""
        if self._starts and self._starts[-1].start_offset >= offset:
            self._replace([start for start in self._starts if start.start_offset < offset])

    def truncate_start(self, offset: int) -> None:
        """The log now begins at `offset`, and so does the epoch of the record at that offset."""
        number = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        if number > 1 or (number == 1 and self._starts[0].start_offset < offset):
            first = EpochStart(self._starts[number - 1].epoch, offset)
            self._replace([first, *self._starts[number:]])

    def mark_unwritten(self) -> None:
        """The file has other epochs: the next `write` replaces it."""
        self.is_changed = True

    def write(self, disk: Disk, directory: Path) -> None:
        """Durable when it returns."""
        if self.is_changed:
            disk.replace_file(directory / names.LEADER_EPOCHS, self.encode())
            self.is_changed = False

    def encode(self) -> bytes:
        return checkpoints.encode([f"{epoch} {start_offset}" for epoch, start_offset in self._starts])

    @classmethod
    def decode(cls, data: bytes, path: Path) -> "LeaderEpochs":
        try:
            starts = [EpochStart(int(epoch), int(offset)) for epoch, offset in checkpoints.decode(data, path, 2)]
        except ValueError:
            raise DamagedCheckpoint(f"{path.name} is not a whole checkpoint") from None
        if starts != sorted(set(starts)):
            raise DamagedCheckpoint(f"{path.name} is not in order")
        return cls(starts)

    def _replace(self, starts: list[EpochStart]) -> None:
        self._starts = starts
        self.latest = starts[-1].epoch if starts else NO_EPOCH
        self.is_changed = True
