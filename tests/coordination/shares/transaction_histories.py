"""As `histories.py`, with producers whose transactions acknowledge records.

The model's coordinator knows how each transaction ended, and says so again after each crash until the machine knows.
"""

from contextlib import suppress

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from headwater.coordination.shares.terms import AcknowledgeType
from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2
from headwater.errors import Refusal
from headwater.ids import MemberId, ProducerId
from tests.coordination.shares.driver import ACCEPT, ORDERS, REJECT, RELEASE
from tests.coordination.shares.histories import END, LIMITS, MEMBERS, OFFSETS, ShareHistories, is_gap

PRODUCERS = st.sampled_from([ProducerId(7), ProducerId(8)])
SAID = st.sampled_from([ACCEPT, ACCEPT, REJECT])


class TransactionHistories(ShareHistories):
    def __init__(self) -> None:
        super().__init__()
        # The epoch of each producer's open transaction, and how those before it ended.
        self.epochs = {ProducerId(7): 0, ProducerId(8): 0}
        self.decisions: dict[tuple[ProducerId, int], bool] = {}
        self.protocol = PROTOCOL_2

    @initialize(protocol=st.sampled_from([PROTOCOL_1, PROTOCOL_2]))
    def choose(self, protocol: int) -> None:
        self.protocol = protocol

    @rule(member=MEMBERS, first=OFFSETS, size=st.integers(1, 6), kind=SAID, producer=PRODUCERS)
    def settle_in_transaction(
        self, member: MemberId, first: int, size: int, kind: AcknowledgeType, producer: ProducerId
    ) -> None:
        driver, epoch = self.driver, self.epochs[producer]
        offsets = [each for each in range(first, min(first + size, END)) if not is_gap(each)]
        settled = driver.run(
            lambda: driver.machine.decide_settle_in_transaction(ORDERS, member, offsets, kind, producer, epoch)
        )
        for offset in offsets:
            record = self.model.records[offset]
            if offset in settled.refused:
                assert record.holder != member, f"{offset} was held by {member}"
                continue
            assert record.holder == member or record.pending == (producer, epoch, kind), f"{offset} was not held"
            record.holder, record.pending = None, (producer, epoch, kind)
        self.remember()

    @rule(producer=PRODUCERS, is_committed=st.booleans())
    def end_transaction(self, producer: ProducerId, is_committed: bool) -> None:
        epoch = self.epochs[producer]
        self.decisions[producer, epoch] = is_committed
        self.epochs[producer] += 1
        self.tell(producer, epoch, is_committed)

    @rule(producer=PRODUCERS, is_committed=st.booleans())
    def repeat_the_marker_of_an_earlier_transaction(self, producer: ProducerId, is_committed: bool) -> None:
        before = self.driver.states()
        with suppress(Refusal):
            self.mark(producer, self.epochs[producer] - 1, is_committed)
        assert self.driver.states() == before

    @rule(producer=PRODUCERS, offset=OFFSETS, member=MEMBERS)
    def ask_as_a_zombie(self, producer: ProducerId, offset: int, member: MemberId) -> None:
        """The coordinator refuses it first; the share-partition would do so while the open transaction is known."""
        driver, epoch = self.driver, self.epochs[producer]
        if driver.share.pending.of(producer) is None:
            return
        before = driver.states()
        with pytest.raises(Refusal):
            driver.run(
                lambda: driver.machine.decide_settle_in_transaction(
                    ORDERS, member, [offset], ACCEPT, producer, epoch - 1
                )
            )
        assert driver.states() == before

    def mark(self, producer: ProducerId, epoch: int, is_committed: bool) -> None:
        driver = self.driver
        marker_epoch = epoch + 1 if self.protocol == PROTOCOL_2 else epoch
        driver.run(
            lambda: driver.machine.decide_end_transaction(
                producer, marker_epoch, self.protocol, driver.now, is_committed=is_committed
            )
        )

    def tell(self, producer: ProducerId, epoch: int, is_committed: bool) -> None:
        self.mark(producer, epoch, is_committed)
        for record in self.model.records.values():
            if record.pending is not None and record.pending[:2] == (producer, epoch):
                kind, record.pending = record.pending[2], None
                self.settle(record, kind if is_committed else RELEASE)
        self.remember()

    @rule(lost=st.integers(0, 100))
    def crash(self, lost: int) -> None:
        super().crash(lost)
        for (producer, epoch), is_committed in self.decisions.items():
            if any(
                record.pending and record.pending[:2] == (producer, epoch) for record in self.model.records.values()
            ):
                self.tell(producer, epoch, is_committed)

    def teardown(self) -> None:
        for producer, epoch in self.epochs.items():
            self.tell(producer, epoch, is_committed=False)
        assert not self.driver.share.pending
        super().teardown()


class TransactionBackoffHistories(TransactionHistories):
    """What an abort gives back waits."""

    limits = LIMITS._replace(backoff_ms=10_000)
