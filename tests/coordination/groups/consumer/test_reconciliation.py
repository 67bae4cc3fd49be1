"""One member's steps as a table: its assignment, its target, its request, and the outcome."""

from collections.abc import Collection
from uuid import UUID

import pytest

from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.consumer.events import CurrentStored, MemberState
from headwater.coordination.groups.consumer.reconciliation import Goal, reconcile
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicId

A, B = TopicId(UUID(int=1)), TopicId(UUID(int=2))
STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
UNRELEASED, UNKNOWN = MemberState.UNRELEASED_PARTITIONS, MemberState.UNKNOWN


def of(**partitions: Collection[int]) -> Assignment:
    return {{"a": A, "b": B}[name]: frozenset(numbers) for name, numbers in partitions.items()}


def current(
    state: MemberState,
    epoch: int,
    assigned: Assignment,
    pending_revocation: Assignment = NOTHING,
    *,
    previous_epoch: int | None = None,
) -> CurrentStored:
    previous = epoch if previous_epoch is None else previous_epoch
    return CurrentStored(GroupId("g"), MemberId("m"), epoch, previous, state, assigned, pending_revocation)


def goal(
    epoch: int,
    target: Assignment,
    owned: Assignment | None = None,
    *,
    taken: Collection[tuple[TopicId, int]] = (),
    subscribed: Collection[TopicId] = (A, B),
    is_resubscribed: bool = False,
) -> Goal:
    return Goal(epoch, target, frozenset(subscribed), is_resubscribed, owned, lambda *each: each in taken)


@pytest.mark.parametrize(
    ("before", "goal", "after"),
    [
        pytest.param(
            current(STABLE, 10, of(a=[1])),
            goal(10, of(a=[1])),
            current(STABLE, 10, of(a=[1])),
            id="stable in the epoch: nothing to do",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1], b=[1])),
            goal(11, of(a=[1], b=[1])),
            current(STABLE, 11, of(a=[1], b=[1]), previous_epoch=10),
            id="stable: the same partitions in a new epoch",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1])),
            goal(11, of(a=[1, 2], b=[1])),
            current(STABLE, 11, of(a=[1, 2], b=[1]), previous_epoch=10),
            id="stable: free partitions are given at once",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1])),
            goal(11, of(a=[1, 2, 3]), taken=[(A, 2)]),
            current(UNRELEASED, 11, of(a=[1, 3]), previous_epoch=10),
            id="stable: what others hold has to wait, the rest does not",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1])),
            goal(11, of(a=[1, 2]), taken=[(A, 2)]),
            current(UNRELEASED, 11, of(a=[1]), previous_epoch=10),
            id="stable: all that is new is held by others",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1, 2], b=[1])),
            goal(11, of(a=[1], b=[2])),
            current(UNREVOKED, 10, of(a=[1]), of(a=[2], b=[1])),
            id="stable: gives up before it is given",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1, 2])),
            goal(11, of(a=[1, 3]), of(a=[1])),
            current(STABLE, 11, of(a=[1, 3]), previous_epoch=10),
            id="stable: it has let go already",
        ),
        pytest.param(
            current(UNREVOKED, 10, of(a=[1]), of(a=[2])),
            goal(12, of(a=[1, 3])),
            current(UNREVOKED, 10, of(a=[1]), of(a=[2])),
            id="unrevoked: says nothing, so it may still own all",
        ),
        pytest.param(
            current(UNREVOKED, 10, of(a=[1]), of(a=[2])),
            goal(12, of(a=[1, 3]), of(a=[1, 2])),
            current(UNREVOKED, 10, of(a=[1]), of(a=[2])),
            id="unrevoked: still owns it",
        ),
        pytest.param(
            current(UNREVOKED, 10, of(a=[1]), of(a=[2])),
            goal(12, of(a=[1, 3]), of(a=[1])),
            current(STABLE, 12, of(a=[1, 3]), previous_epoch=10),
            id="unrevoked: has let go and gets what is free",
        ),
        pytest.param(
            current(UNREVOKED, 10, of(a=[1, 2]), of(a=[3])),
            goal(12, of(a=[1]), of(a=[1, 2])),
            current(UNREVOKED, 11, of(a=[1]), of(a=[2]), previous_epoch=10),
            id="unrevoked: has let go, and meanwhile there is more to give up",
        ),
        pytest.param(
            current(UNREVOKED, 10, of(a=[1]), of(a=[2])),
            goal(12, of(a=[1, 2]), of(a=[1])),
            current(STABLE, 12, of(a=[1, 2]), previous_epoch=10),
            id="unrevoked: has let go of what it now gets back",
        ),
        pytest.param(
            current(UNREVOKED, 10, of(a=[1]), of(a=[2])),
            goal(11, of(a=[1, 3]), of(a=[1]), taken=[(A, 3)]),
            current(UNRELEASED, 11, of(a=[1]), previous_epoch=10),
            id="unrevoked: has let go and waits for others",
        ),
        pytest.param(
            current(UNRELEASED, 11, of(a=[1])),
            goal(11, of(a=[1, 2, 3]), taken=[(A, 3)]),
            current(UNRELEASED, 11, of(a=[1, 2])),
            id="unreleased: one of two has become free",
        ),
        pytest.param(
            current(UNRELEASED, 11, of(a=[1])),
            goal(11, of(a=[1, 2])),
            current(STABLE, 11, of(a=[1, 2])),
            id="unreleased: all have become free",
        ),
        pytest.param(
            current(UNRELEASED, 11, of(a=[1, 2])),
            goal(12, of(a=[1])),
            current(UNREVOKED, 11, of(a=[1]), of(a=[2])),
            id="unreleased: the target has moved on, and takes something away",
        ),
        pytest.param(
            current(UNKNOWN, 11, of(a=[1])),
            goal(12, of(a=[1]), of()),
            current(STABLE, 12, of(a=[1]), previous_epoch=11),
            id="unknown: a member that owns nothing can be brought anywhere",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1], b=[1])),
            goal(10, of(a=[1], b=[1]), subscribed=[A], is_resubscribed=True),
            current(UNREVOKED, 10, of(a=[1]), of(b=[1])),
            id="stable: unsubscribed from a topic before there is a new target",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1], b=[1])),
            goal(10, of(a=[1], b=[1]), of(a=[1]), subscribed=[A], is_resubscribed=True),
            current(STABLE, 10, of(a=[1])),
            id="stable: unsubscribed from a topic that it has let go",
        ),
        pytest.param(
            current(STABLE, 10, of(a=[1])),
            goal(10, of(a=[1]), is_resubscribed=True),
            current(STABLE, 10, of(a=[1])),
            id="stable: subscribed to more, which comes with the next target",
        ),
        pytest.param(
            current(UNREVOKED, 10, of(a=[1], b=[1]), of(a=[2])),
            goal(10, of(a=[1]), subscribed=[A], is_resubscribed=True),
            current(UNREVOKED, 10, of(a=[1]), of(a=[2], b=[1])),
            id="unrevoked: more to give up after it unsubscribed",
        ),
        pytest.param(
            current(UNREVOKED, 10, of(a=[1]), of(b=[1])),
            goal(10, of(a=[1], b=[1]), of(a=[1]), subscribed=[A]),
            current(STABLE, 10, of(a=[1])),
            id="unrevoked: never ahead of the target, and not given what it does not want",
        ),
    ],
)
def test_a_step_on_the_way_to_the_target(before: CurrentStored, goal: Goal, after: CurrentStored) -> None:
    assert reconcile(before, goal) == after


@pytest.mark.parametrize("owned", [None, of(a=[1])])
def test_a_member_in_an_unknown_state_that_may_own_something_is_fenced(owned: Assignment | None) -> None:
    with pytest.raises(Refusal) as refused:
        reconcile(current(UNKNOWN, 11, of(a=[1])), goal(12, of(a=[1]), owned))

    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
