"""What is scheduled for one target: its pending entries, the delivery under way, and batches that it may not have."""

from collections.abc import Collection

from headwater.coordination.schedule.entries import PendingEntries
from headwater.coordination.schedule.events import DeliveryBegun
from headwater.coordination.schedule.terms import BATCHES_REMEMBERED, ProducedBatch, Target

SEQUENCE_MASK = 2**31 - 1


class TargetSchedule:
    __slots__ = ("delivery", "entries", "id", "is_gone", "moved", "next_sequence", "unconfirmed")

    def __init__(self, identity: Target, *, is_new: bool) -> None:
        self.id = identity
        self.entries = PendingEntries(is_new=is_new)
        # The sequence of the next delivery.
        self.next_sequence = 0
        self.delivery: DeliveryBegun | None = None
        # Entries that were moved since they were scheduled.
        self.moved: set[int] = set()
        # Batches of idempotent producers that are scheduled, and of which the target may not know yet: by producer,
        # with the offset of the first entry.
        self.unconfirmed: dict[int, list[tuple[ProducedBatch, int]]] = {}
        # Whether its topic is deleted. Then its entries are on their way out.
        self.is_gone = False

    def due_ms(self) -> int | None:
        """When the next delivery may begin."""
        return None if self.delivery is not None else self.entries.next_due_ms()

    def recognise(self, batch: ProducedBatch) -> int | None:
        """The first entry of a batch that was scheduled before, and which the target did not get."""
        for known, first_offset in self.unconfirmed.get(batch.producer_id, ()):
            if known == batch:
                return first_offset
        return None

    def remember(self, batch: ProducedBatch, first_offset: int) -> None:
        if batch.producer_id < 0:
            return
        known = self.unconfirmed.setdefault(batch.producer_id, [])
        if known and known[-1][0].producer_epoch != batch.producer_epoch:
            known.clear()
        known.append((batch, first_offset))
        if len(known) > BATCHES_REMEMBERED:
            del known[0]

    def confirm(self, first_offset: int) -> None:
        """The target has the batch."""
        for producer_id, known in self.unconfirmed.items():
            left = [each for each in known if each[1] != first_offset]
            if len(left) < len(known):
                if left:
                    self.unconfirmed[producer_id] = left
                else:
                    del self.unconfirmed[producer_id]
                return

    def forget(self, first_offsets: Collection[int]) -> None:
        """The target never gets these batches. A later batch with the same sequences is another attempt."""
        for first_offset in [at for known in self.unconfirmed.values() for _, at in known if at in first_offsets]:
            self.confirm(first_offset)

    def begin(self, delivery: DeliveryBegun) -> None:
        self.delivery = delivery
        self.next_sequence = (delivery.base_sequence + len(delivery.entries)) & SEQUENCE_MASK
        self.entries.forget_taken()
