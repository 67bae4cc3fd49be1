"""Random histories of a classic group, with restarts: invariants at every step, and every request is answered."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.coordination.decisions import Ticket
from headwater.coordination.groups.classic.events import (
    JOIN_PHASE,
    SESSION,
    SYNC_PHASE,
    GenerationStored,
    SupportedProtocol,
)
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode, Refusal
from tests.coordination.groups.classic.driver import GROUP, INITIAL_DELAY_MS, ClassicDriver, protocols

OFFERS = [
    protocols("range"),
    protocols("range", "sticky"),
    protocols("sticky", "range", topics=["orders", "users"]),
    protocols("range", user_data=b"held"),
    protocols("sticky"),
]
REFUSALS = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.REBALANCE_IN_PROGRESS,
}

ResultT = TypeVar("ResultT")


class Wishes(NamedTuple):
    offers: Sequence[SupportedProtocol]
    session_ms: int
    rebalance_ms: int
    may_skip: bool


wishes_of_any_kind = st.builds(
    Wishes,
    offers=st.sampled_from(OFFERS),
    session_ms=st.sampled_from([30_000, 30_000, 10_000, 6_000]),
    rebalance_ms=st.sampled_from([60_000, 60_000, 60_000, 5_000, 0]),
    may_skip=st.booleans(),
)
instances = st.sampled_from([None, None, "one", "two"])
picks = st.integers(min_value=0, max_value=20)


# Skip steps that would only be refused.
with_members = precondition(lambda machine: bool(machine.driver.members))


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = ClassicDriver(max_size=4)
        # Every member id that a client ever got, with the instance id that it keeps over restarts.
        self.names: dict[str, str] = {}
        # Requests since the last restart that were not refused; of syncs also the generation, and who asked.
        self.accepted: list[Ticket] = []
        self.asked_in: dict[Ticket, tuple[int, str]] = {}
        # The assignment that each member got in each generation.
        self.owners: dict[tuple[int, bytes], set[str]] = {}

    # -- clients

    @rule(instance=instances, needs_id=st.booleans(), wishes=wishes_of_any_kind)
    def join(self, instance: str | None, needs_id: bool, wishes: Wishes) -> None:
        new_id = f"m{len(self.names)}"
        self.names[new_id] = instance or new_id
        self._request(lambda: self.driver.join(new_id=new_id, instance=instance, needs_id=needs_id, **wishes._asdict()))

    @with_members
    @rule(pick=picks, instance=instances, wishes=wishes_of_any_kind)
    def join_again(self, pick: int, instance: str | None, wishes: Wishes) -> None:
        self._request(lambda: self.driver.join(self._pick(pick), instance=instance, **wishes._asdict()))

    @with_members
    @rule(pick=picks, is_current=st.sampled_from([True, True, True, False]))
    def sync(self, pick: int, is_current: bool) -> None:
        member_id = self._pick(pick)
        generation = self.driver.generation if is_current else self.driver.generation - 1
        shares = {name: f"share {number}".encode() for number, name in enumerate(self.driver.members)}

        ticket = self._request(lambda: self.driver.sync(member_id, generation, assignments=shares))
        if ticket is not None:
            self.asked_in[ticket] = generation, self.names[member_id]

    @with_members
    @rule()
    def join_everyone(self) -> None:
        for member_id in self.driver.members:
            self._request(lambda member_id=member_id: self.driver.join(member_id, session_ms=30_000))

    @with_members
    @rule()
    def settle(self) -> None:
        """From now on every client joins, syncs and sends heartbeats in time."""
        self.join_everyone()
        self.time_passes(INITIAL_DELAY_MS)
        self.sync_everyone("last")

    @initialize(count=st.integers(min_value=1, max_value=4), wishes=wishes_of_any_kind)
    def begin(self, count: int, wishes: Wishes) -> None:
        for instance in [None, "one", None, "two"][:count]:
            self.join(instance, needs_id=False, wishes=wishes)
        self.driver.advance(2 * INITIAL_DELAY_MS)

    @with_members
    @rule(leaders_turn=st.sampled_from(["first", "last", "never"]))
    def sync_everyone(self, leaders_turn: str) -> None:
        leader = self.driver.group.roster.leader
        followers = [member_id for member_id in self.driver.members if member_id != leader]
        order = {"first": [leader, *followers], "last": [*followers, leader], "never": followers}[leaders_turn]
        for member_id in order:
            if self.driver.state is GroupState.COMPLETING_REBALANCE:
                self.sync(self.driver.members.index(str(member_id)), is_current=True)

    @with_members
    @rule()
    def heartbeat_of_everyone(self) -> None:
        for pick in range(len(self.driver.members)):
            self.heartbeat(pick)

    @with_members
    @rule(pick=picks)
    def heartbeat(self, pick: int) -> None:
        self._try(lambda: self.driver.heartbeat(self._pick(pick)))

    @with_members
    @rule(pick=picks)
    def commit(self, pick: int) -> None:
        self._try(lambda: self.driver.commit(self._pick(pick), self.driver.generation))

    @with_members
    @rule(pick=picks)
    def leave(self, pick: int) -> None:
        self.driver.leave(self._pick(pick))

    @with_members
    @rule(first=picks, second=picks, instance=instances)
    def leave_together(self, first: int, second: int, instance: str | None) -> None:
        self.driver.leave_as((self._pick(first), None), (self._pick(second), None), (NO_MEMBER, instance))

    @rule(milliseconds=st.sampled_from([0, 1, 500, 3_000, 3_000, 6_000, 20_000, 61_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)

    @precondition(lambda self: self.driver.durable)
    @rule()
    def restart(self) -> None:
        before, self.driver = self.driver, self.driver.reload()
        # Waiting requests have lost their connections.
        self.driver.issued = before.issued
        self.accepted.clear()
        self.asked_in.clear()

    def _pick(self, pick: int) -> str:
        """Mostly a current member id, sometimes a former or unknown one."""
        known = [*self.driver.members, *self.names, "stranger"]
        return known[pick % len(known)]

    def _request(self, attempt: Callable[[], Ticket]) -> Ticket | None:
        ticket = self._try(attempt)
        if ticket is not None:
            self.accepted.append(ticket)
        return ticket

    def _try(self, attempt: Callable[[], ResultT]) -> ResultT | None:
        try:
            return attempt()
        except Refusal as refusal:
            if refusal.code not in REFUSALS:
                raise
            return None

    # -- invariants

    @invariant()
    def a_generation_has_one_leader(self) -> None:
        leaders: dict[int, set[str]] = {}
        for joined in self.driver.joined.values():
            if joined.members:
                leaders.setdefault(joined.generation, set()).add(self.names[joined.member_id])
        assert all(len(names) == 1 for names in leaders.values()), leaders

    @invariant()
    def a_share_of_a_generation_has_one_owner(self) -> None:
        for ticket, (generation, name) in self.asked_in.items():
            synced = self.driver.synced.get(ticket)
            if synced is not None and synced.assignment:
                self.owners.setdefault((generation, synced.assignment), set()).add(name)
        assert all(len(names) == 1 for names in self.owners.values()), self.owners

    @invariant()
    def everyone_who_waits_is_a_member_in_a_state_that_ends(self) -> None:
        roster = self.driver.group.roster
        assert roster.joining.keys() <= roster.members.keys()
        assert roster.syncing.keys() <= roster.members.keys()
        assert roster.unsynced <= roster.members.keys()
        assert not roster.awaited & roster.members.keys()
        assert not roster.joining or roster.state is GroupState.PREPARING_REBALANCE
        assert not roster.syncing or roster.state is GroupState.COMPLETING_REBALANCE
        assert not roster.members or roster.state is not GroupState.EMPTY
        assert roster.leader in roster.members if roster.members else roster.leader is None

    @invariant()
    def what_is_counted_agrees_with_the_members(self) -> None:
        roster = self.driver.group.roster
        names = Counter(protocol.name for member in roster.members.values() for protocol in member.protocols)
        assert roster.supporters == names
        assert set(roster.supporters) == set(names)
        statics = {member.instance_id: member.id for member in roster.members.values() if member.instance_id}
        assert roster.id_of_instance == statics
        assert len(statics) == sum(member.instance_id is not None for member in roster.members.values())

    @invariant()
    def there_is_a_deadline_for_all_that_is_expected_and_for_nothing_else(self) -> None:
        roster = self.driver.group.roster
        patient = {member_id for member_id, joining in roster.joining.items() if joining.until_ms is None}
        silent = (roster.members.keys() | roster.awaited) - patient - roster.syncing.keys()
        expected = {(GROUP, SESSION, member_id) for member_id in silent}
        if roster.state is GroupState.PREPARING_REBALANCE:
            expected.add((GROUP, JOIN_PHASE, NO_MEMBER))
        if roster.unsynced:
            expected.add((GROUP, SYNC_PHASE, NO_MEMBER))
        assert set(self.driver.deadlines._due_ms) == expected

    def teardown(self) -> None:
        driver = self.driver
        self._check_every_prefix_of_the_log()
        driver.advance(3_600_000)
        assert driver.state is GroupState.EMPTY
        assert len(driver.deadlines) == 0
        assert [ticket for ticket in self.accepted if driver.is_waiting(ticket)] == []

    def _check_every_prefix_of_the_log(self) -> None:
        durable = self.driver.durable
        for length in range(len(durable) + 1):
            loaded = self.driver.reload(durable[:length])
            last = durable[length - 1] if length else None
            assert isinstance(last, GenerationStored | None)
            members = [] if last is None else [member.member_id for member in last.members]
            if len(members) <= self.driver.config.group_max_size:
                assert loaded.state is (GroupState.STABLE if members else GroupState.EMPTY)
            assert list(loaded.group.roster.members) == members
            assert len(loaded.deadlines) == len(members)
            for member_id in members:
                assert loaded.heartbeat(member_id) is ErrorCode.NONE


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=100, stateful_step_count=40)


def test_every_request_of_a_group_that_dies_out_is_answered_exactly_once() -> None:
    driver = ClassicDriver()
    for member in range(50):
        driver.join(new_id=f"m{member}", instance=f"i{member}" if member % 3 else None)
    driver.advance(6_000)
    for member in range(25):
        driver.sync(f"m{member + 10}")
    driver.join(new_id="late")
    driver.join("m30")
    driver.join("m30")
    driver.leave("m31", "m32")

    driver.advance(3_600_000)

    assert driver.state is GroupState.EMPTY
    assert len(driver.joined) + len(driver.synced) == driver.issued
