"""Histories with dead letters: in the end each record is accepted, is a dead letter once, or is still available (I14).

Beside the share-partition there is a model of its dead-letter topic: a log of copies, the tail of which a power failure
takes, and which knows the last sequence of its producer, as a partition does.
"""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import rule

from headwater.coordination.shares.outbox import LetterTarget, sequence_of
from headwater.ids import ProducerId, TopicId
from tests.coordination.shares.driver import ORDERS
from tests.coordination.shares.histories import LIMITS, ShareHistories

DEAD_TOPIC = TopicId(ORDERS.topic_id)
GIVEN_UP = {"REJECT", "exhausted"}


class DeadLetterHistories(ShareHistories):
    limits = LIMITS._replace(has_dead_letters=True)

    def __init__(self) -> None:
        super().__init__()
        # The copies: producer, sequence and offset. Those from `flushed` on are not on disk.
        self.copies: list[tuple[int, int, int]] = []
        self.flushed = 0
        self.producers = 0

    @property
    def last_sequence(self) -> int:
        """Of the producer that the share-partition writes as."""
        target = self.driver.share.outbox.target
        return max(
            (sequence for producer, sequence, _ in self.copies if target and producer == target.producer_id), default=-1
        )

    @rule(count=st.integers(1, 8), is_told=st.booleans())
    def copy(self, count: int, is_told: bool) -> None:
        """One step of the writer, as `broker/shares/dead_letters.py` does it: it sees letters that are on disk."""
        self.confirm()
        outbox = self.driver.share.outbox
        if not outbox.size:
            return
        self.resolve()
        if outbox.target is None:
            self.use_target()
            return
        number = outbox.unwritten_before(self.last_sequence)
        assert sequence_of(number) == sequence_of(self.last_sequence + 1), "a sequence is missing"
        numbered = [
            (letters.number + index, offset)
            for letters in outbox.letters
            for index, offset in enumerate(range(letters.first, letters.last + 1))
        ]
        producer_id = outbox.target.producer_id
        self.copies += [(producer_id, sequence_of(each), offset) for each, offset in numbered[:count]]
        if is_told:
            self.resolve()

    def resolve(self) -> None:
        """What is copied and on disk leaves the outbox."""
        self.flushed = len(self.copies)
        share = self.driver.share
        before = share.outbox.unwritten_before(self.last_sequence)
        if any(each.number < before for each in share.outbox.letters):
            self.driver.run(lambda: self.driver.machine.decide_letters_written(ORDERS, share.state_epoch, before))
            self.remember()

    def use_target(self) -> None:
        share = self.driver.share
        self.producers += 1
        target = LetterTarget(DEAD_TOPIC, 0, ProducerId(self.producers))
        self.driver.run(lambda: self.driver.machine.decide_letter_target(ORDERS, share.state_epoch, target))
        self.remember()

    @rule(lost=st.integers(0, 100))
    def crash(self, lost: int) -> None:
        super().crash(lost)

    @rule(lost=st.integers(0, 100), kept=st.integers(0, 100))
    def lose_power(self, lost: int, kept: int) -> None:
        """Of the copies that are not on disk, any number is lost from the end."""
        del self.copies[self.flushed + kept % (len(self.copies) - self.flushed + 1) :]
        super().crash(lost)

    def teardown(self) -> None:
        super().teardown()
        for _ in range(3):
            self.copy(100, is_told=True)
        assert not self.driver.share.outbox.size, "letters wait for ever"
        copied = Counter(offset for *_, offset in self.copies)
        assert max(copied.values(), default=1) == 1, "a dead letter is there twice"
        given_up = {offset for offset, record in self.model.records.items() if record.fate in GIVEN_UP}
        assert copied.keys() == given_up, "a dead letter is missing, or was not given up"
