"""The dead letters of a share-partition that are not copied yet: an outbox.

The records are archived and put into the outbox by the same event, so that neither happens without the other. The
letters are numbered in their order. A letter is copied with its number as the sequence of a producer that only this
share-partition writes as, so that after a crash the producer's last sequence in the dead-letter topic tells which of
the letters are there.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from headwater.ids import ProducerId, TopicId
from headwater.protocol.batches.dead_letter_headers import Reason

# A share-partition takes no more records while so many letters wait: its dead-letter topic cannot be written.
LETTERS_MAX: Final = 10_000
_SEQUENCE_MASK: Final = (1 << 31) - 1


class GivenUp(NamedTuple):
    """Neighbouring records that a group gave up for the same reason."""

    first: int
    last: int
    delivery_count: int
    reason: Reason


class Letters(NamedTuple):
    """Neighbouring records to be copied; the first has this number, and those after it count on from there."""

    number: int
    first: int
    last: int
    delivery_count: int
    reason: Reason
    time_ms: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class LetterTarget(NamedTuple):
    """The partition of a dead-letter topic, and the producer that writes the copies."""

    topic_id: TopicId
    partition: int
    producer_id: ProducerId


class OutboxChange(NamedTuple):
    added: Sequence[Letters] = ()
    # The letters before this number are copied.
    written_before: int = 0
    # From now on letters are copied there. Those that wait are numbered from 0 again.
    target: LetterTarget | None = None


class OutboxStored(NamedTuple):
    """The whole outbox, as a snapshot has it."""

    next_number: int
    letters: Sequence[Letters]
    target: LetterTarget | None


class Outbox:
    __slots__ = ("_letters", "next_number", "size", "target")

    def __init__(self, stored: OutboxStored | None = None) -> None:
        self.next_number = 0 if stored is None else stored.next_number
        self.target = None if stored is None else stored.target
        self._letters = deque(() if stored is None else stored.letters)
        # How many records wait.
        self.size = sum(each.size for each in self._letters)

    @property
    def letters(self) -> Iterable[Letters]:
        """In the order of their numbers."""
        return self._letters

    @property
    def is_full(self) -> bool:
        return self.size >= LETTERS_MAX

    def stored(self) -> OutboxStored | None:
        if not self.next_number and self.target is None:
            return None
        return OutboxStored(self.next_number, tuple(self._letters), self.target)

    def addition(self, given_up: Sequence[GivenUp], time_ms: int) -> OutboxChange:
        added: list[Letters] = []
        number = self.next_number
        for first, last, count, reason in given_up:
            added.append(Letters(number, first, last, count, reason, time_ms))
            number += last - first + 1
        return OutboxChange(added)

    def unwritten_before(self, last_sequence: int) -> int:
        """The number of the first letter that is not copied, if the producer's last sequence is this one (-1: none)."""
        number = self._letters[0].number if self._letters else self.next_number
        ahead = (last_sequence - number + 1) & _SEQUENCE_MASK
        # Sequences wrap around. What seems far ahead is behind: all before `number` are known to be copied.
        return number + ahead if last_sequence >= 0 and ahead <= self.size else number

    def apply(self, change: OutboxChange) -> None:
        letters = self._letters
        for each in change.added:
            letters.append(each)
            self.size += each.size
            self.next_number = each.number + each.size
        while letters and letters[0].number < change.written_before:
            done = letters.popleft()
            count = min(change.written_before - done.number, done.size)
            self.size -= count
            if count < done.size:
                letters.appendleft(done._replace(number=done.number + count, first=done.first + count))
                break
        if change.target is not None:
            self.target = change.target
            self._letters = deque(_numbered(letters))
            self.next_number = self.size


def sequence_of(number: int) -> int:
    return number & _SEQUENCE_MASK


def without_lost(stored: OutboxStored, end_offset: int) -> OutboxStored:
    """Without the letters of records that the log has lost: other records have their offsets now."""
    kept = [each._replace(last=min(each.last, end_offset - 1)) for each in stored.letters if each.first < end_offset]
    return stored._replace(letters=kept)


def _numbered(letters: Iterable[Letters]) -> Iterable[Letters]:
    number = 0
    for each in letters:
        yield each._replace(number=number)
        number += each.size
