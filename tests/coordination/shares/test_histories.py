"""Random histories keep to the model, and each of these bugs is found by them."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from headwater.coordination.shares import share_partition, share_state
from headwater.coordination.shares.events import LocksChecked, Resumed, ShareSnapshotStored, ShareUpdated
from headwater.coordination.shares.runs import Run
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import DeliveryState
from tests.coordination.shares.histories import SEARCH, BackoffHistories, ShareHistories

ShareHistories.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestShareHistories = ShareHistories.TestCase
BackoffHistories.TestCase.settings = ShareHistories.TestCase.settings
TestBackoffHistories = BackoffHistories.TestCase


def forget_the_holder(patch: pytest.MonkeyPatch) -> None:
    """Any member may acknowledge what another one holds."""
    held_by = SharePartition._held_by

    def of_anybody(self: SharePartition, member_id: Any, first: int, last: int, kind: Any) -> list[Run]:
        run = self.runs.at(first)
        return held_by(self, member_id if run is None else run.member_id, first, last, kind)

    patch.setattr(SharePartition, "_held_by", of_anybody)


def count_no_attempts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(share_partition, "state_after_release", lambda _run, _limits: DeliveryState.AVAILABLE)


def move_the_start_too_far(patch: pytest.MonkeyPatch) -> None:
    start_after = SharePartition._start_after
    patch.setattr(
        SharePartition, "_start_after", lambda self, changes: max(start_after(self, changes), changes[0].last + 1)
    )


def let_locks_last(patch: pytest.MonkeyPatch) -> None:
    decide_due = SharePartition.decide_due

    def late(self: SharePartition, limits: Any, now: Any) -> Any:
        decision = decide_due(self, limits, now)
        return decision._replace(events=[each for each in decision.events if isinstance(each, LocksChecked)])

    patch.setattr(SharePartition, "decide_due", late)


def store_acquisitions_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    """A snapshot counts deliveries that have not ended: after a crash the record has one attempt less."""
    stored = share_state._stored

    def wrong(run: Run) -> Any:
        return stored(run if run.state is not DeliveryState.ACQUIRED else Run(*run[:3], run.delivery_count + 1))

    patch.setattr(share_state, "_stored", wrong)


def lose_releases(patch: pytest.MonkeyPatch) -> None:
    """What was released is not stored: a crash gives back the attempt."""
    patch.setattr(SharePartition, "_decide_change", _without_available(SharePartition._decide_change))


def _without_available(decide: Callable[..., Any]) -> Callable[..., Any]:
    def decided(*arguments: Any) -> Any:
        return [
            event._replace(batches=[each for each in event.batches if each.state.is_final])
            if isinstance(event, ShareUpdated | ShareSnapshotStored)
            else event
            for event in decide(*arguments)
        ]

    return decided


def give_out_what_is_held(patch: pytest.MonkeyPatch) -> None:
    def available(self: SharePartition, first: int, last: int) -> Any:
        runs = [run for run in self.runs.within(first, last) if not run.is_final]
        found = [(max(run.first, first), min(run.last, last), run.delivery_count) for run in runs]
        return found + ([(max(first, self.runs.end), last, 0)] if last >= self.runs.end else [])

    patch.setattr(SharePartition, "_available", available)


def give_back_the_attempt_of_a_member_that_leaves(patch: pytest.MonkeyPatch) -> None:
    """A record that kills its members would be delivered for ever."""
    decide = SharePartition.decide_release_all

    def uncounted(self: SharePartition, *arguments: Any) -> Any:
        decision = decide(self, *arguments)
        return decision._replace(
            events=[
                event._replace(
                    batches=[each._replace(delivery_count=each.delivery_count - 1) for each in event.batches]
                )
                if isinstance(event, ShareUpdated)
                else event
                for event in decision.events
            ]
        )

    patch.setattr(SharePartition, "decide_release_all", uncounted)


def let_nothing_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_deferred", lambda *_: iter(()))


def let_records_wait_for_ever(patch: pytest.MonkeyPatch) -> None:
    decide_due = SharePartition.decide_due

    def without(self: SharePartition, limits: Any, now: Any) -> Any:
        decision = decide_due(self, limits, now)
        return decision._replace(events=[each for each in decision.events if not isinstance(each, Resumed)])

    patch.setattr(SharePartition, "decide_due", without)


@pytest.mark.parametrize("plant", [let_nothing_wait, let_records_wait_for_ever], ids=lambda plant: plant.__name__)
def test_a_planted_bug_of_waiting_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(BackoffHistories, settings=SEARCH)


@pytest.mark.parametrize(
    "plant",
    [
        forget_the_holder,
        count_no_attempts,
        move_the_start_too_far,
        let_locks_last,
        store_acquisitions_in_snapshots,
        lose_releases,
        give_out_what_is_held,
        give_back_the_attempt_of_a_member_that_leaves,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ShareHistories, settings=SEARCH)
