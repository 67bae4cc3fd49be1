"""Random histories with transactions keep to the model, and each of these bugs is found by them."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from headwater.coordination.shares.events import ShareUpdated, StateBatch
from headwater.coordination.shares.machine import ShareMachine
from headwater.coordination.shares.pending import PendingAcknowledgements
from headwater.coordination.shares.runs import Run
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import DeliveryState
from headwater.coordination.shares.transactional_share import TransactionalShare
from headwater.errors import Refusal
from tests.coordination.shares.histories import SEARCH
from tests.coordination.shares.transaction_histories import TransactionBackoffHistories, TransactionHistories

TransactionHistories.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestTransactionHistories = TransactionHistories.TestCase
TransactionBackoffHistories.TestCase.settings = TransactionHistories.TestCase.settings
TestTransactionBackoffHistories = TransactionBackoffHistories.TestCase


def count_at_once(patch: pytest.MonkeyPatch) -> None:
    """What a transaction accepts is accepted before its end."""
    decide = TransactionalShare.decide_settle_in_transaction

    def at_once(event: Any) -> ShareUpdated:
        accepted = [
            StateBatch(first, last, DeliveryState.ACKNOWLEDGED, count)
            for first, last, count, _ in event.pending.batches
        ]
        return event._replace(batches=accepted, pending=None)

    def eager(self: TransactionalShare, *arguments: Any) -> Any:
        decision = decide(self, *arguments)
        return decision._replace(events=list(map(at_once, decision.events)))

    patch.setattr(TransactionalShare, "decide_settle_in_transaction", eager)


def forget_pending_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    """What was acknowledged lives in memory only: after a crash it is delivered again, and a commit finds nothing."""
    apply = ShareMachine.apply

    def restarted(self: ShareMachine, event: object) -> None:
        # A machine that is rebuilt is a new object; the live one has decided the event.
        if isinstance(event, ShareUpdated) and event.pending is not None and not hasattr(self, "is_live"):
            event = event._replace(pending=None)
        apply(self, event)

    decide = ShareMachine.decide_settle_in_transaction

    def live(self: ShareMachine, *arguments: Any) -> Any:
        self.is_live = True  # type: ignore[attr-defined]
        return decide(self, *arguments)

    patch.setattr(ShareMachine, "apply", restarted)
    patch.setattr(ShareMachine, "decide_settle_in_transaction", live)


def leave_pending_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingAcknowledgements, "stored", lambda *_, **__: ())


def commit_what_is_aborted(patch: pytest.MonkeyPatch) -> None:
    decide = TransactionalShare.decide_end_transaction
    patch.setattr(
        TransactionalShare,
        "decide_end_transaction",
        lambda self, producer, limits, now, *, is_committed: decide(self, producer, limits, now, is_committed=True),
    )


def end_those_of_all_producers(patch: pytest.MonkeyPatch) -> None:
    """A marker carries out what any producer has said."""

    def of_any(self: PendingAcknowledgements, producer_id: Any) -> Any:
        return self._transactions.get(producer_id) or next(iter(self._transactions.values()), None)

    patch.setattr(PendingAcknowledgements, "of", of_any)


def give_back_the_attempt_of_an_aborted_transaction(patch: pytest.MonkeyPatch) -> None:
    """A record whose transactions all fail would be delivered for ever."""
    decide = TransactionalShare.decide_end_transaction

    def with_less(event: Any) -> Any:
        if not isinstance(event, ShareUpdated):
            return event
        return event._replace(batches=[each._replace(delivery_count=each.delivery_count - 1) for each in event.batches])

    def uncounted(self: TransactionalShare, *arguments: Any, is_committed: bool) -> Any:
        decision = decide(self, *arguments, is_committed=is_committed)
        return decision._replace(events=list(map(with_less, decision.events)))

    patch.setattr(TransactionalShare, "decide_end_transaction", uncounted)


def let_locks_of_pending_records_run_out(patch: pytest.MonkeyPatch) -> None:
    add = SharePartition._add_pending

    def held(self: SharePartition, transaction: Any) -> None:
        before = {first: self.runs.at(first) for first, _, _, _ in transaction.batches}
        add(self, transaction)
        for first, last, count, _ in transaction.batches:
            run = before[first]
            if run is not None and run.state is DeliveryState.ACQUIRED:
                self.runs.set(Run(first, last, DeliveryState.ACQUIRED, count, run.member_id, run.deadline_ms))

    patch.setattr(SharePartition, "_add_pending", held)


def end_without_a_word_of_it(patch: pytest.MonkeyPatch) -> None:
    """That the transaction has ended is not stored with what it means."""
    decide = TransactionalShare.decide_end_transaction

    def silent(self: TransactionalShare, *arguments: Any, is_committed: bool) -> Any:
        decision = decide(self, *arguments, is_committed=is_committed)
        events = [each._replace(ended=None) if isinstance(each, ShareUpdated) else each for each in decision.events]
        return decision._replace(events=events)

    patch.setattr(TransactionalShare, "decide_end_transaction", silent)


@pytest.mark.parametrize(
    "plant",
    [
        count_at_once,
        forget_pending_in_a_restart,
        leave_pending_out_of_snapshots,
        commit_what_is_aborted,
        end_those_of_all_producers,
        give_back_the_attempt_of_an_aborted_transaction,
        let_locks_of_pending_records_run_out,
        end_without_a_word_of_it,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, Refusal, pytest.fail.Exception)):
        run_state_machine_as_test(TransactionHistories, settings=SEARCH)
