"""What a share-partition decides about acknowledgements inside transactions.

A record that a transaction accepts or rejects is *pending* until the transaction ends: nobody else is given it, its
lock does not run out, and a restart does not end that. A commit carries out what was said of it; an abort gives it
back, and the delivery counts. That a transaction has ended and what this means for its records is one event.
"""

from collections.abc import Collection

from headwater.coordination.decisions import Decision, Now
from headwater.coordination.shares.commands import Acknowledged, RecordsAvailable, RecordsGivenUp, Settled
from headwater.coordination.shares.events import ShareUpdated, StateBatch
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.outbox import GivenUp
from headwater.coordination.shares.pending import PendingBatch, PendingTransaction, joined
from headwater.coordination.shares.share_state import ShareState, state_after_release
from headwater.coordination.shares.terms import AcknowledgeType, DeliveryState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, ProducerId
from headwater.protocol.batches.dead_letter_headers import Reason


class TransactionalShare(ShareState):
    def decide_settle_in_transaction(
        self,
        hold: MemberId,
        offsets: Collection[int],
        kind: AcknowledgeType,
        producer_id: ProducerId,
        producer_epoch: int,
    ) -> Decision[Settled]:
        """Accept or reject what `hold` holds of these offsets, if the producer's transaction is committed. Each offset
        counts for itself. What the transaction has said already may be said again: the answer was lost."""
        known = self.pending.of(producer_id)
        if known is not None:
            _check_epoch(known, producer_epoch)
        batches: list[PendingBatch] = []
        refused: set[int] = set()
        for offset in offsets:
            run = self.runs.at(offset)
            if run is None or run.member_id != hold:
                refused.add(offset)
            elif run.state is DeliveryState.ACQUIRED:
                batches.append(PendingBatch(offset, offset, run.delivery_count, kind))
            elif run.state is not DeliveryState.PENDING or known is None or not known.says(offset, kind):
                refused.add(offset)
        settled = Settled(Acknowledged(), frozenset(refused))
        if not batches:
            return Decision((), settled)
        runs = self.runs
        update = ShareUpdated(
            self.id,
            self.snapshot_epoch,
            self.leader_epoch,
            runs.start,
            runs.final_count,
            (),
            pending=PendingTransaction(producer_id, producer_epoch, joined(batches)),
        )
        return Decision([update], settled)

    def decide_end_transaction(
        self, producer_id: ProducerId, limits: ShareLimits, now: Now, *, is_committed: bool
    ) -> Decision[Acknowledged]:
        transaction = self.pending.of(producer_id)
        assert transaction is not None, "a transaction with pending acknowledgements"
        changes: list[StateBatch] = []
        letters: list[GivenUp] = []
        accepted = rejected = released = exhausted = 0
        for batch in transaction.batches:
            for run in self.runs.within(batch.first, batch.last):
                if run.state is not DeliveryState.PENDING:
                    continue
                first, last = max(run.first, batch.first), min(run.last, batch.last)
                size = last - first + 1
                if not is_committed:
                    released += size
                    state, reason = state_after_release(run, limits), Reason.EXHAUSTED
                    exhausted += size if state.is_final else 0
                elif batch.type is AcknowledgeType.REJECT:
                    rejected += size
                    state, reason = DeliveryState.ARCHIVED, Reason.REJECTED
                else:
                    accepted += size
                    state, reason = DeliveryState.ACKNOWLEDGED, None
                changes.append(StateBatch(first, last, state, run.delivery_count))
                if limits.has_dead_letters and state is DeliveryState.ARCHIVED and reason is not None:
                    letters.append(GivenUp(first, last, run.delivery_count, reason))
        effects: list[object] = [RecordsAvailable(self.id)]
        if letters:
            effects.append(RecordsGivenUp(self.id, has_letters=True))
        return Decision(
            self._decide_change(changes, limits, now, letters, producer_id),
            Acknowledged(accepted=accepted, released=released, rejected=rejected, exhausted=exhausted),
            effects=effects,
        )


def _check_epoch(known: PendingTransaction, producer_epoch: int) -> None:
    if producer_epoch < known.producer_epoch:
        raise Refusal(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {known.producer_id} has epoch {known.producer_epoch}, the request {producer_epoch}",
        )
    if producer_epoch > known.producer_epoch:
        raise Refusal(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"the transaction of epoch {known.producer_epoch} of producer {known.producer_id} has not ended here yet",
        )
