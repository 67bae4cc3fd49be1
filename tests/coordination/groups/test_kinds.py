"""Another kind of group fits in: the machine lists, counts, expires and deletes toy groups that it does not know."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, NoReturn, cast, get_args

import pytest

from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.groups.classic.commands import Join, Leave, Sync
from headwater.coordination.groups.classic.events import ClassicRosterEvent
from headwater.coordination.groups.consumer.events import ConsumerRosterEvent
from headwater.coordination.groups.events import Event
from headwater.coordination.groups.group import GroupContext
from headwater.coordination.groups.kinds import CLASSIC, CONSUMER, KINDS, GroupKind
from headwater.coordination.groups.machine import GroupMachine
from headwater.coordination.groups.offsets.commands import Commit, OffsetQuery
from headwater.coordination.groups.offsets.events import OffsetCommitted, OffsetEvent
from headwater.coordination.groups.offsets.offsets import ExpiryRule
from headwater.coordination.groups.share.events import ShareRosterEvent
from headwater.coordination.groups.terms import DeadlineKey, GroupListing, GroupState, GroupType
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicName, TopicPartition
from tests.coordination.groups.one_group import offset
from tests.support.coordination.consumer_driver import Topics, heartbeat
from tests.support.coordination.migration_driver import join_request

TOYS = GroupId("toys")
NOW = Now(1_700_000_000_000, 0)
LEASE = "toy-lease"
LEASE_MS = 1000
# The memory that a toy group reports.
TOY_BYTES = 100


class ToyType(Enum):
    TOY = "toy"


class ToyTaken(NamedTuple):
    group_id: GroupId
    toy: str
    until_ms: int


class ToyReturned(NamedTuple):
    group_id: GroupId
    toy: str


class ToysForgotten(NamedTuple):
    group_id: GroupId


class ToyGroup:
    """Toys are taken for a while. It has nothing to do with members of other protocols."""

    type = cast("GroupType", ToyType.TOY)
    protocol_type = "toys"
    is_pristine = False
    may_expire = True

    def __init__(self, group_id: GroupId, deadlines: Deadlines[DeadlineKey]) -> None:
        self.group_id = group_id
        self.taken: set[str] = set()
        self._deadlines = deadlines

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.taken else GroupState.EMPTY

    @property
    def weight(self) -> int:
        return TOY_BYTES * len(self.taken)

    def weight_of(self, member_id: MemberId) -> int:
        return TOY_BYTES if member_id in self.taken else 0

    def apply(self, event: ToyTaken | ToyReturned | ToysForgotten) -> None:
        match event:
            case ToyTaken(group_id, toy, until_ms):
                self.taken.add(toy)
                self._deadlines.set((group_id, LEASE, toy), until_ms)
            case ToyReturned(group_id, toy):
                self.taken.discard(toy)
                self._deadlines.cancel((group_id, LEASE, toy))
            case ToysForgotten():
                assert not self.taken

    def decide_join(self, join: Join, ticket: Ticket, now: Now) -> NoReturn:
        self._refuse()

    def decide_sync(self, sync: Sync, ticket: Ticket, now: Now) -> NoReturn:
        self._refuse()

    def weight_added_by(self, sync: Sync) -> int:
        return 0

    def decide_heartbeat(
        self, member_id: MemberId, instance_id: str | None, generation: int, now: Now
    ) -> Decision[ErrorCode]:
        self._refuse()

    def decide_leave(self, leaving: Sequence[Leave], now: Now) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"'{self.group_id}' is for toys")

    def decide_commit(self, commit: Commit, *, is_transactional: bool, now: Now) -> Sequence[object]:
        return ()

    def check_fetch(self, member_id: MemberId | None, epoch: int) -> None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "toys do not fetch")

    def check_offsets_deletable(self) -> None:
        pass

    def is_subscribed_to(self, topic: TopicName) -> bool:
        return topic == "a"

    def expiry_rule(self) -> ExpiryRule | None:
        return ExpiryRule()

    def decide_delete(self) -> Sequence[object]:
        if self.taken:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, "first return the toys")
        return [ToysForgotten(self.group_id)]

    def decide_expired(self, kind: str, member_id: str, now: Now) -> Decision[None]:
        assert kind == LEASE
        return Decision([ToyReturned(self.group_id, member_id)], None)

    def decide_loaded(self, now: Now) -> Sequence[object]:
        return [ToyTaken(self.group_id, toy, now.monotonic_ms + LEASE_MS) for toy in self.taken]


def new_toy_group(group_id: GroupId, context: GroupContext) -> ToyGroup:
    return ToyGroup(group_id, context.deadlines)


TOY = GroupKind(
    ToyGroup.type,
    new_toy_group,
    events=(ToyTaken, ToyReturned, ToysForgotten),
    removals=(ToyReturned,),
    end=ToysForgotten,
)


@pytest.fixture
def machine() -> GroupMachine:
    config = GroupDefaults()
    group_config = GroupConfig.from_overrides({}, config)
    topics = Topics({"a": 1, "b": 1})
    return GroupMachine(config, lambda _: group_config, topics, lambda: True, lambda: 1 << 30, (*KINDS, TOY))


@pytest.fixture
def with_toy(machine: GroupMachine) -> GroupMachine:
    machine.apply(ToyTaken(TOYS, "bear", LEASE_MS))
    return machine


def take(machine: GroupMachine, decision: Decision[Any]) -> Sequence[object]:
    for event in decision.events:
        machine.apply(event)
    return decision.events


def test_the_first_event_begins_a_toy_group_and_the_machine_lists_it(with_toy: GroupMachine) -> None:
    assert with_toy.listings() == [GroupListing(TOYS, "toys", GroupState.STABLE, ToyGroup.type)]
    assert with_toy.weight == TOY_BYTES


@pytest.mark.parametrize("event", [ToyReturned(TOYS, "bear"), ToysForgotten(TOYS)])
def test_leftovers_of_an_ended_group_in_a_compacted_log_begin_no_group(machine: GroupMachine, event: object) -> None:
    machine.apply(event)
    assert machine.groups == {}


def test_the_deadline_of_a_toy_group_is_decided_by_the_group(with_toy: GroupMachine) -> None:
    assert with_toy.next_deadline_ms() == LEASE_MS
    assert take(with_toy, with_toy.decide_due(NOW)) == [ToyReturned(TOYS, "bear")]
    assert with_toy.groups[TOYS].state is GroupState.EMPTY
    assert (with_toy.next_deadline_ms(), with_toy.weight) == (None, 0)


def test_a_toy_group_is_deleted_only_when_empty(with_toy: GroupMachine) -> None:
    with pytest.raises(Refusal) as refused:
        with_toy.decide_delete(TOYS)
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP

    with_toy.apply(ToyReturned(TOYS, "bear"))
    take(with_toy, with_toy.decide_delete(TOYS))
    assert with_toy.groups == {}


def test_a_toy_group_expires_when_empty_with_old_offsets(with_toy: GroupMachine) -> None:
    take(with_toy, with_toy.decide_commit(TOYS, Commit(MemberId(""), None, -1, (offset("b", 0, 7),)), NOW))
    later = NOW._replace(wall_ms=NOW.wall_ms + GroupDefaults().offsets_retention_ms)
    assert len(take(with_toy, with_toy.decide_expire(later))) == 1, "toys are out"

    with_toy.apply(ToyReturned(TOYS, "bear"))
    assert take(with_toy, with_toy.decide_expire(later)) == [ToysForgotten(TOYS)]
    assert with_toy.groups == {}


def test_after_a_load_the_deadlines_of_a_toy_group_start_anew(with_toy: GroupMachine) -> None:
    take(with_toy, with_toy.decide_loaded(Now(NOW.wall_ms, 50_000)))
    assert with_toy.next_deadline_ms() == 50_000 + LEASE_MS
    assert with_toy.weight == TOY_BYTES


def test_a_toy_group_decides_on_requests_of_other_protocols(with_toy: GroupMachine) -> None:
    for decide, code in (
        (lambda: with_toy.decide_join(TOYS, join_request(), Ticket(1), NOW), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            lambda: with_toy.decide_member_heartbeat(TOYS, heartbeat("ann", topics=["a"]), NOW),
            ErrorCode.GROUP_ID_NOT_FOUND,
        ),
        (lambda: with_toy.decide_member_heartbeat(TOYS, heartbeat("ann", 1), NOW), ErrorCode.UNKNOWN_MEMBER_ID),
        (lambda: with_toy.committed(TOYS, OffsetQuery(None, MemberId("ann"), 1)), ErrorCode.UNKNOWN_MEMBER_ID),
        (lambda: with_toy.describe_classic(TOYS), ErrorCode.GROUP_ID_NOT_FOUND),
        (lambda: with_toy.describe_consumer(TOYS), ErrorCode.GROUP_ID_NOT_FOUND),
    ):
        with pytest.raises(Refusal) as refused:
            decide()
        assert refused.value.code is code


def test_a_toy_group_says_which_offsets_are_in_use(with_toy: GroupMachine) -> None:
    asked = [TopicPartition(TopicName(name), 0) for name in ("a", "b")]
    assert with_toy.decide_delete_offsets(TOYS, asked).result == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


def test_a_group_that_ends_leaves_its_offsets_to_a_classic_one(with_toy: GroupMachine) -> None:
    take(with_toy, with_toy.decide_commit(TOYS, Commit(MemberId(""), None, -1, (offset("b", 0, 7),)), NOW))
    with_toy.apply(ToyReturned(TOYS, "bear"))
    with_toy.apply(ToysForgotten(TOYS))
    assert [listing.type for listing in with_toy.listings()] == [GroupType.CLASSIC]


# -- the kinds that there are


def test_an_event_of_no_kind_is_refused(with_toy: GroupMachine) -> None:
    without = GroupMachine(
        GroupDefaults(), lambda _: GroupConfig(), Topics(), lambda: True, lambda: 1, (CLASSIC, CONSUMER)
    )
    for event in (ToyTaken(TOYS, "bear", 1), object()):
        with pytest.raises(AssertionError, match="not an event of groups"):
            without.apply(event)
    assert without.groups == {}
    for group_id in ("classic", "consumer", "share"):
        for kind in KINDS:
            group = kind.new(GroupId(group_id), without._context)
            with pytest.raises(AssertionError):
                group.apply(ToyTaken(TOYS, "bear", 1))


def test_every_event_of_groups_is_for_one_kind_or_for_offsets() -> None:
    events = [event for kind in KINDS for event in kind.events]
    assert {*events} == {
        *get_args(ClassicRosterEvent),
        *get_args(ConsumerRosterEvent),
        *get_args(ShareRosterEvent),
    }
    assert len(events) == len({*events})
    assert {*get_args(Event)} <= {*events, *get_args(OffsetEvent)}
    assert OffsetCommitted not in events
    for kind in KINDS:
        assert {*kind.removals, kind.end} < {*kind.events}


def test_an_event_is_not_for_two_kinds() -> None:
    with pytest.raises(AssertionError, match="two kinds"):
        GroupMachine(GroupDefaults(), lambda _: GroupConfig(), Topics(), lambda: True, lambda: 1, (*KINDS, CLASSIC))
