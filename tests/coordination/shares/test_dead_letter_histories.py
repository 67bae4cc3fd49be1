"""Random histories with dead letters keep to the model, and each of these bugs is found by them."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from headwater.coordination.shares import outbox as outbox_module
from headwater.coordination.shares import share_partition
from headwater.coordination.shares.events import ShareSnapshotStored, ShareUpdated
from headwater.coordination.shares.outbox import Outbox, OutboxStored
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import AcknowledgeType
from tests.coordination.shares.dead_letter_histories import DeadLetterHistories
from tests.coordination.shares.histories import SEARCH

DeadLetterHistories.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestDeadLetterHistories = DeadLetterHistories.TestCase


def forget_letters_of_expired_locks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(share_partition, "_exhausted", lambda _changes, _limits: ())


def archive_without_the_letter(patch: pytest.MonkeyPatch) -> None:
    """The archival is stored, and the letter is not: it is known until the next crash."""
    _change_updates(patch, lambda update: update._replace(outbox=None))


def store_the_letter_without_the_archival(patch: pytest.MonkeyPatch) -> None:
    _change_updates(patch, lambda update: update._replace(batches=()) if update.outbox else update)


def _change_updates(patch: pytest.MonkeyPatch, change: Callable[[ShareUpdated], ShareUpdated]) -> None:
    decide = SharePartition._decide_change

    def changed(self: SharePartition, *arguments: Any) -> Any:
        return [change(each) if isinstance(each, ShareUpdated) else each for each in decide(self, *arguments)]

    patch.setattr(SharePartition, "_decide_change", changed)


def leave_letters_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    snapshot = SharePartition._snapshot

    def without(self: SharePartition, *arguments: Any) -> ShareSnapshotStored:
        stored = snapshot(self, *arguments)
        return stored._replace(outbox=stored.outbox and stored.outbox._replace(letters=()))

    patch.setattr(SharePartition, "_snapshot", without)


def forget_the_producer_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    stored = Outbox.stored

    def without(self: Outbox) -> OutboxStored | None:
        found = stored(self)
        return found and found._replace(target=None)

    patch.setattr(Outbox, "stored", without)


def copy_again_what_is_copied(patch: pytest.MonkeyPatch) -> None:
    """The last sequence of the dead-letter topic is not asked for."""
    patch.setattr(Outbox, "unwritten_before", lambda self, _: next(iter(self.letters)).number if self.size else 0)


def take_one_letter_too_many_for_copied(patch: pytest.MonkeyPatch) -> None:
    unwritten = Outbox.unwritten_before

    def further(self: Outbox, last_sequence: int) -> int:
        found = unwritten(self, last_sequence)
        return found + 1 if last_sequence >= 0 and self.size > 1 else found

    patch.setattr(Outbox, "unwritten_before", further)


def give_numbers_again(patch: pytest.MonkeyPatch) -> None:
    """Letters are numbered from those on that wait, as if none had been copied before."""
    addition = Outbox.addition

    def again(self: Outbox, *arguments: Any) -> Any:
        change = addition(self, *arguments)
        return change._replace(
            added=[each._replace(number=each.number - self.next_number + self.size) for each in change.added]
        )

    patch.setattr(Outbox, "addition", again)


def make_letters_of_accepted_records(patch: pytest.MonkeyPatch) -> None:
    final = {**share_partition._FINAL_BY_TYPE, AcknowledgeType.ACCEPT: share_partition.DeliveryState.ARCHIVED}
    patch.setattr(share_partition, "_FINAL_BY_TYPE", final)


def drop_what_is_left_of_a_run(patch: pytest.MonkeyPatch) -> None:
    """Of neighbouring records of which some are copied, the others are forgotten."""
    apply = Outbox.apply

    def dropped(self: Outbox, change: Any) -> None:
        before = change.written_before
        for each in self.letters:
            if each.number < before < each.number + each.size:
                change = change._replace(written_before=each.number + each.size)
        apply(self, change)

    patch.setattr(Outbox, "apply", dropped)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        forget_letters_of_expired_locks,
        archive_without_the_letter,
        store_the_letter_without_the_archival,
        leave_letters_out_of_snapshots,
        forget_the_producer_in_snapshots,
        copy_again_what_is_copied,
        take_one_letter_too_many_for_copied,
        give_numbers_again,
        make_letters_of_accepted_records,
        drop_what_is_left_of_a_run,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(DeadLetterHistories, settings=SEARCH)


def test_sequences_wrap_around() -> None:
    for number in (2**31 - 3, 2**31, 5 * 2**31 - 1):
        letters = [outbox_module.Letters(number, 10, 15, 1, outbox_module.Reason.REJECTED, 0)]
        outbox = Outbox(OutboxStored(number + 6, letters, None))
        for copied in range(7):
            assert outbox.unwritten_before(outbox_module.sequence_of(number + copied - 1)) == number + copied
        assert outbox.unwritten_before(outbox_module.sequence_of(number - 100)) == number
        assert outbox.unwritten_before(-1) == number
