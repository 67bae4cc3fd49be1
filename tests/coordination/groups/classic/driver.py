"""Drives one classic group as its shard does: decides, applies, keeps the log, issues tickets, advances a manual clock.

Every decision is checked to leave the group as it was, and every ticket to be answered once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TypeVar

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import VOLATILE_TYPES, Decision, Now, Ticket, Waiting
from headwater.coordination.groups.classic.commands import Join, JoinResult, Leave, LeaveResult, Sync, SyncResult
from headwater.coordination.groups.classic.events import ClassicRosterEvent, SupportedProtocol
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.offsets.commands import Commit
from headwater.coordination.groups.terms import CONSUMER_PROTOCOL_TYPE, NO_MEMBER, DeadlineKey, GroupState
from headwater.errors import ErrorCode
from headwater.ids import GroupId, MemberId, TopicName
from headwater.protocol.consumer_protocol import Subscription, write_subscription

GROUP = GroupId("payments")
WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000

ResultT = TypeVar("ResultT")


def protocols(*names: str, topics: Sequence[str] = ("orders",), user_data: bytes = b"") -> list[SupportedProtocol]:
    metadata = write_subscription(Subscription([TopicName(topic) for topic in topics], user_data))
    return [SupportedProtocol(name, metadata) for name in names]


RANGE = protocols("range")


class ClassicDriver:
    def __init__(
        self, *, max_size: int = 1000, initial_delay_ms: int = INITIAL_DELAY_MS, metadata_max_bytes: int = 4096
    ) -> None:
        self.config = GroupDefaults(
            group_max_size=max_size,
            group_initial_rebalance_delay_ms=initial_delay_ms,
            headwater_group_metadata_max_bytes=metadata_max_bytes,
        )
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()
        self.group = ClassicGroup(GROUP, self.config, self.deadlines)
        self.log: list[ClassicRosterEvent] = []
        self.now_ms = 0
        self.issued = 0
        self.joined: dict[Ticket, JoinResult] = {}
        self.synced: dict[Ticket, SyncResult] = {}

    # -- requests

    def join(
        self,
        member_id: str = NO_MEMBER,
        *,
        new_id: str = "new",
        instance: str | None = None,
        offers: Sequence[SupportedProtocol] = RANGE,
        protocol_type: str = CONSUMER_PROTOCOL_TYPE,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        needs_id: bool = False,
        may_skip: bool = True,
    ) -> Ticket:
        join = Join(
            member_id=MemberId(member_id),
            new_member_id=MemberId(new_id),
            instance_id=instance,
            client_id="client",
            client_host="/10.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=offers,
            is_member_id_required=needs_id,
            may_skip_assignment=may_skip,
        )
        ticket = self._ticket()
        result = self._perform(lambda: self.group.decide_join(join, ticket, self.now))
        if not isinstance(result, Waiting):
            self._answer(ticket, result)
        return ticket

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = CONSUMER_PROTOCOL_TYPE,
        protocol: str | None = None,
        assignments: Mapping[str, bytes] | None = None,
    ) -> Ticket:
        sync = Sync(
            member_id=MemberId(member_id),
            instance_id=instance,
            generation=self.generation if generation is None else generation,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments={MemberId(name): assigned for name, assigned in (assignments or {}).items()},
        )
        ticket = self._ticket()
        result = self._perform(lambda: self.group.decide_sync(sync, ticket, self.now))
        if not isinstance(result, Waiting):
            self._answer(ticket, result)
        return ticket

    def heartbeat(self, member_id: str, generation: int | None = None, *, instance: str | None = None) -> ErrorCode:
        at = self.generation if generation is None else generation
        return self._perform(lambda: self.group.decide_heartbeat(MemberId(member_id), instance, at, self.now))

    def leave(self, *member_ids: str) -> list[ErrorCode]:
        return [left.error for left in self.leave_as(*((member_id, None) for member_id in member_ids))]

    def leave_as(self, *identities: tuple[str, str | None]) -> Sequence[LeaveResult]:
        leaving = [Leave(MemberId(member_id), instance) for member_id, instance in identities]
        return self._perform(lambda: self.group.decide_leave(leaving, self.now))

    def commit(
        self, member_id: str, generation: int, *, instance: str | None = None, is_transactional: bool = False
    ) -> None:
        self._perform(
            lambda: Decision(
                self.group.decide_commit(
                    Commit(MemberId(member_id), instance, generation, ()),
                    is_transactional=is_transactional,
                    now=self.now,
                ),
                None,
            )
        )

    # -- initial states

    def stable(
        self, *member_ids: str, static: Iterable[str] = (), offers: Sequence[SupportedProtocol] = RANGE
    ) -> "ClassicDriver":
        """These members, of which the first leads, with an assignment each; static ones are named after their ids."""
        self.completing(*member_ids, static=static, offers=offers)
        for member_id in member_ids[::-1]:
            self.sync(member_id, assignments={name: f"for {name}".encode() for name in member_ids})
        assert self.state is GroupState.STABLE
        return self

    def completing(
        self, *member_ids: str, static: Iterable[str] = (), offers: Sequence[SupportedProtocol] = RANGE
    ) -> "ClassicDriver":
        names = set(static)
        for member_id in member_ids:
            self.join(new_id=member_id, instance=f"i-{member_id}" if member_id in names else None, offers=offers)
        self.advance(self.config.group_initial_rebalance_delay_ms * 2)
        assert self.state is GroupState.COMPLETING_REBALANCE
        return self

    # -- time and state

    @property
    def now(self) -> Now:
        return Now(WALL_MS + self.now_ms, self.now_ms)

    @property
    def state(self) -> GroupState:
        return self.group.state

    @property
    def generation(self) -> int:
        return self.group.roster.generation

    @property
    def members(self) -> list[str]:
        return [str(member_id) for member_id in self.group.roster.members]

    def advance(self, milliseconds: int) -> None:
        """Advances the clock, and processes each deadline when it is due."""
        target_ms = self.now_ms + milliseconds
        while (due_ms := self.deadlines.next_ms()) is not None and due_ms <= target_ms:
            self.now_ms = max(self.now_ms, due_ms)
            key = self.deadlines.next_key()
            assert key is not None
            _, kind, member_id = key
            self._perform(lambda kind=kind, member_id=member_id: self.group.decide_expired(kind, member_id, self.now))
            assert (self.deadlines.next_key(), self.deadlines.next_ms()) != (key, due_ms), "the driver would spin"
        self.now_ms = target_ms

    def reload(self, events: Iterable[ClassicRosterEvent] | None = None) -> "ClassicDriver":
        """Another driver, whose group is rebuilt from the log alone."""
        other = ClassicDriver()
        other.config, other.now_ms = self.config, self.now_ms
        other.group = ClassicGroup(GROUP, other.config, other.deadlines)
        for event in self.durable if events is None else events:
            other.group.apply(event)
            other.log.append(event)
        assert len(other.deadlines) == 0, "a log that is read knows no time"
        other.perform(lambda: Decision(other.group.decide_loaded(other.now), None))
        return other

    @property
    def durable(self) -> list[ClassicRosterEvent]:
        return [event for event in self.log if type(event) not in VOLATILE_TYPES]

    def is_waiting(self, ticket: Ticket) -> bool:
        return ticket not in self.joined and ticket not in self.synced

    def perform(self, decide: Callable[[], Decision[ResultT]]) -> ResultT:
        return self._perform(decide)

    def snapshot(self) -> object:
        roster = self.group.roster
        held = {each.name: getattr(roster, each.name) for each in fields(roster) if each.name != "deadlines"}
        return repr(held), dict(self.deadlines._due_ms)

    def _perform(self, decide: Callable[[], Decision[ResultT]]) -> ResultT:
        before = self.snapshot()
        try:
            decision = decide()
        finally:
            assert self.snapshot() == before, "deciding must not mutate"
        for event in decision.events:
            self.group.apply(event)  # pyright: ignore[reportArgumentType]
            self.log.append(event)  # pyright: ignore[reportArgumentType]
        for ticket, result in decision.answers:
            self._answer(ticket, result)
        return decision.result

    def _ticket(self) -> Ticket:
        self.issued += 1
        return Ticket(self.issued)

    def _answer(self, ticket: Ticket, result: object) -> None:
        assert self.is_waiting(ticket), "answered twice"
        if isinstance(result, JoinResult):
            self.joined[ticket] = result
        else:
            assert isinstance(result, SyncResult)
            self.synced[ticket] = result
