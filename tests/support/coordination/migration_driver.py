"""Drives one group through both protocols, as its shard does: the events decide which of the two it speaks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast, get_args

from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import VOLATILE_TYPES, Decision, Now, Ticket
from headwater.coordination.groups.classic.commands import Join, Leave, Sync
from headwater.coordination.groups.classic.events import ClassicGroupForgotten, ClassicRosterEvent, SupportedProtocol
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH, MemberHeartbeat
from headwater.coordination.groups.consumer.events import ConsumerGroupForgotten
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.migration import upgrade
from headwater.coordination.groups.terms import DeadlineKey
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicName
from headwater.protocol.consumer_protocol import Subscription, write_subscription
from tests.support.coordination.consumer_driver import GROUP, Topics

CLASSIC_EVENTS = get_args(ClassicRosterEvent)
CLASSIC_SESSION_TIMEOUT_MS = 30_000
CLASSIC_REBALANCE_TIMEOUT_MS = 50_000


def subscription_bytes(
    topics: Iterable[str], owned: Mapping[str, Sequence[int]] | None = None, rack: str | None = None, version: int = 3
) -> bytes:
    owned_partitions = {TopicName(name): list(numbers) for name, numbers in (owned or {}).items()}
    names = [TopicName(name) for name in topics]
    return write_subscription(Subscription(names, None, owned_partitions, -1, rack), version)


def join_request(
    member_id: str = "",
    *,
    topics: Iterable[str] = ("a",),
    owned: Mapping[str, Sequence[int]] | None = None,
    instance: str | None = None,
    protocols: Sequence[str] = ("range",),
    protocol_type: str = "consumer",
    new_member_id: str = "new",
    is_member_id_required: bool = False,
    rack: str | None = None,
    version: int = 3,
) -> Join:
    metadata = subscription_bytes(topics, owned, rack, version)
    return Join(
        member_id=MemberId(member_id),
        new_member_id=MemberId(new_member_id),
        instance_id=instance,
        client_id="classic",
        client_host="/127.0.0.2",
        session_timeout_ms=CLASSIC_SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=CLASSIC_REBALANCE_TIMEOUT_MS,
        protocol_type=protocol_type,
        protocols=[SupportedProtocol(name, metadata) for name in protocols],
        is_member_id_required=is_member_id_required,
        may_skip_assignment=True,
    )


class Shard:
    def __init__(self, topics: Topics, config: GroupDefaults | None = None, log: Sequence[object] = ()) -> None:
        self.topics = topics
        self.config = config or GroupDefaults(group_initial_rebalance_delay_ms=0)
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()
        self.group: ClassicGroup | ConsumerGroup | None = None
        self.now = Now(1_700_000_000_000, 0)
        self.log: list[object] = []
        # Answers to requests that had waited, by ticket.
        self.answers: dict[Ticket, Any] = {}
        self._tickets = 0
        self.apply(log)
        if self.group is not None:
            self.apply(self.group.decide_loaded(self.now))

    @property
    def consumer(self) -> ConsumerGroup:
        assert isinstance(self.group, ConsumerGroup)
        return self.group

    @property
    def classic(self) -> ClassicGroup:
        assert isinstance(self.group, ClassicGroup)
        return self.group

    # -- requests

    def heartbeat(self, heartbeat: MemberHeartbeat) -> Any:
        def decide() -> Decision[Any]:
            if isinstance(self.group, ConsumerGroup):
                return self.group.decide_member_heartbeat(heartbeat, self.now)
            if heartbeat.epoch != JOIN_EPOCH:
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "no such group")
            if self.group is None:
                return self._new_consumer().decide_member_heartbeat(heartbeat, self.now)
            return upgrade.decide_upgrade(self.group, self._new_consumer(), heartbeat, self.now)

        return self.decide(decide)

    def join(self, join: Join) -> Any:
        """The result, or the ticket under which the answer will come."""
        self._tickets += 1
        ticket = Ticket(self._tickets)

        def decide() -> Decision[Any]:
            return (self.group or self._new_classic()).decide_join(join, ticket, self.now)

        return self._or_ticket(self.decide(decide), ticket)

    def sync(
        self,
        member_id: str,
        generation: int,
        *,
        instance: str | None = None,
        assignments: Mapping[MemberId, bytes] | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Any:
        self._tickets += 1
        ticket = Ticket(self._tickets)
        sync = Sync(MemberId(member_id), instance, generation, protocol_type, protocol, assignments or {})

        def decide() -> Decision[Any]:
            return self._existing().decide_sync(sync, ticket, self.now)

        return self._or_ticket(self.decide(decide), ticket)

    def beat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        def decide() -> Decision[Any]:
            return self._existing().decide_heartbeat(MemberId(member_id), instance, generation, self.now)

        return self.decide(decide)

    def leave(self, *leaving: tuple[str, str | None]) -> list[ErrorCode]:
        asked = [Leave(MemberId(member_id), instance) for member_id, instance in leaving]

        def decide() -> Decision[Any]:
            return self._existing().decide_leave(asked, self.now)

        return [left.error for left in self.decide(decide)]

    # -- machinery

    def decide(self, decide: Callable[[], Decision[Any]]) -> Any:
        decision = decide()
        assert decide() == decision, "deciding must not mutate"
        self.apply(decision.events)
        self.answers.update(decision.answers)
        return decision.result

    def apply(self, events: Iterable[object]) -> None:
        for event in events:
            if isinstance(event, CLASSIC_EVENTS):
                if not isinstance(self.group, ClassicGroup):
                    self.group = self._new_classic()
                self.group.apply(cast("ClassicRosterEvent", event))
            else:
                if not isinstance(self.group, ConsumerGroup):
                    self.group = self._new_consumer()
                self.group.apply(event)
            if isinstance(event, ClassicGroupForgotten | ConsumerGroupForgotten):
                self.group = None
            if type(event) not in VOLATILE_TYPES:
                self.log.append(event)

    def advance(self, milliseconds: int) -> None:
        until_ms = self.now.monotonic_ms + milliseconds
        while (due_ms := self.deadlines.next_ms()) is not None and due_ms <= until_ms:
            self.now = Now(self.now.wall_ms + due_ms - self.now.monotonic_ms, due_ms)
            key = self.deadlines.next_key()
            assert key is not None
            assert self.group is not None, "a deadline of a group that is gone"
            self.decide(partial(self.group.decide_expired, key[1], key[2], self.now))
        self.now = Now(self.now.wall_ms + until_ms - self.now.monotonic_ms, until_ms)

    def _or_ticket(self, result: Any, ticket: Ticket) -> Any:
        return result if isinstance(result, tuple) else ticket

    def _existing(self) -> ClassicGroup | ConsumerGroup:
        if self.group is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "no such group")
        return self.group

    def _new_classic(self) -> ClassicGroup:
        return ClassicGroup(GROUP, self.config, self.deadlines)

    def _new_consumer(self) -> ConsumerGroup:
        config = GroupConfig.from_overrides({}, self.config)
        return ConsumerGroup(GROUP, self.config, lambda _: config, self.deadlines, self.topics)
