"""Reconciliation of a member's current assignment with its target: it revokes, then waits for others, then is stable.

Invariant: a partition is given to a member only when no other member holds it.
"""

from collections.abc import Callable
from typing import NamedTuple

from headwater.coordination.groups.assignment import (
    NOTHING,
    Assignment,
    difference,
    intersection,
    union,
)
from headwater.coordination.groups.consumer.events import CurrentStored, MemberState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import TopicId


class Goal(NamedTuple):
    """Where a member is moved to, and what its next step depends on."""

    epoch: int
    target: Assignment
    # Topics of the target that are not among these are ignored: the member no longer subscribes to them.
    subscribed: frozenset[TopicId]
    # The subscription changed just now.
    is_resubscribed: bool
    # The partitions that the member says it owns; None if it says nothing.
    owned: Assignment | None
    # Whether another member holds the partition.
    is_taken: Callable[[TopicId, int], bool]


def reconcile(current: CurrentStored, goal: Goal) -> CurrentStored:
    """The member's next step, or the identical `current` if it cannot move yet."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch != goal.epoch:
                return _next(current, current.epoch, goal)
            return _without_unsubscribed(current, goal) if goal.is_resubscribed else current
        case MemberState.UNREVOKED_PARTITIONS:
            if _owns_any(goal.owned, current.pending_revocation):
                return _without_unsubscribed(current, goal) if goal.is_resubscribed else current
            # At most the target's epoch: the member may have revoked topics before there was a new target.
            return _next(current, min(current.epoch + 1, goal.epoch), goal)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(current, current.epoch, goal)
        case MemberState.UNKNOWN:
            # Written by a newer version. Only a member that owns nothing is known to be safe.
            if goal.owned is None or goal.owned:
                raise Refusal(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "the state of the member is not known: it must abandon all its partitions and join again",
                )
            return _next(current, goal.epoch, goal)


def _next(current: CurrentStored, epoch: int, goal: Goal) -> CurrentStored:
    target = {topic_id: partitions for topic_id, partitions in goal.target.items() if topic_id in goal.subscribed}
    kept = intersection(current.assigned, target)
    to_revoke = difference(current.assigned, kept)
    if to_revoke and _owns_any(goal.owned, to_revoke):
        # The member stays in its epoch until it has confirmed the revocation.
        return current._replace(
            epoch=epoch,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=to_revoke,
        )

    wanted = difference(target, kept)
    free = _free(wanted, goal)
    return current._replace(
        epoch=goal.epoch,
        previous_epoch=current.epoch,
        state=MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS,
        assigned=union(kept, free),
        pending_revocation=NOTHING,
    )


def _without_unsubscribed(current: CurrentStored, goal: Goal) -> CurrentStored:
    """Revokes topics that the member no longer subscribes to, without a change of its epoch."""
    kept = {topic_id: partitions for topic_id, partitions in current.assigned.items() if topic_id in goal.subscribed}
    if len(kept) == len(current.assigned):
        return current
    to_revoke = union(current.pending_revocation, difference(current.assigned, kept))
    if not _owns_any(goal.owned, to_revoke):
        return current._replace(assigned=kept)
    return current._replace(state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=to_revoke)


def _owns_any(owned: Assignment | None, partitions: Assignment) -> bool:
    """Whether the member owns any of the partitions. A member that does not say what it owns may own all."""
    return owned is None or any(
        topic_id in partitions and not partitions[topic_id].isdisjoint(mine) for topic_id, mine in owned.items()
    )


def _free(wanted: Assignment, goal: Goal) -> Assignment:
    is_taken = goal.is_taken
    return {
        topic_id: free
        for topic_id, partitions in wanted.items()
        if (free := frozenset(partition for partition in partitions if not is_taken(topic_id, partition)))
    }
