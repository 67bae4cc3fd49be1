"""Drives one consumer group as its shard does: decides, applies, keeps the log and advances a manual clock.

Each decision is made twice and must come out the same: deciding does not change the group.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.catalog.events import Topic
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import VOLATILE_TYPES, Decision, Now
from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH, MemberAnswer, MemberHeartbeat
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.terms import NO_MEMBER, DeadlineKey
from headwater.ids import GroupId, MemberId, TopicId, TopicName

ResultT = TypeVar("ResultT")

GROUP = GroupId("payments")
REBALANCE_TIMEOUT_MS = 60_000
SESSION_TIMEOUT_MS = 45_000


class Topics:
    """A `TopicImage` that a test changes at will."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.version = 0
        self.by_name: dict[TopicName, Topic] = {}
        self.by_id: dict[TopicId, Topic] = {}
        self.racks_of: dict[tuple[str, int], frozenset[str]] = {}
        self._created = 0
        for name, count in (counts or {}).items():
            self.put(name, count)

    def put(self, name: str, partition_count: int) -> TopicId:
        known = self.by_name.get(TopicName(name))
        if known is None:
            self._created += 1
        topic_id = known.id if known is not None else TopicId(UUID(int=self._created))
        topic = Topic(TopicName(name), topic_id, partition_count, {})
        self.by_name[topic.name] = self.by_id[topic.id] = topic
        self.version += 1
        return topic_id

    def delete(self, name: str) -> None:
        del self.by_id[self.by_name.pop(TopicName(name)).id]
        self.version += 1

    def id_of(self, name: str) -> TopicId:
        return self.by_name[TopicName(name)].id

    def racks(self, topic_id: TopicId, partition: int) -> frozenset[str]:
        return self.racks_of.get((self.by_id[topic_id].name, partition), frozenset())


def heartbeat(
    member_id: str,
    epoch: int = JOIN_EPOCH,
    *,
    topics: Iterable[str] | None = None,
    regex: str | None = None,
    owned: Assignment | None = None,
    instance: str | None = None,
    rack: str | None = None,
    assignor: str | None = None,
    timeout_ms: int | None = None,
    client_id: str = "client",
    new_member_id: str = "",
) -> MemberHeartbeat:
    """A heartbeat with only the required fields; a joining member adds an empty assignment and a rebalance time-out."""
    if epoch == JOIN_EPOCH:
        owned = owned if owned is not None else {}
        timeout_ms = timeout_ms if timeout_ms is not None else REBALANCE_TIMEOUT_MS
    return MemberHeartbeat(
        member_id=MemberId(member_id),
        epoch=epoch,
        instance_id=instance,
        rack_id=rack,
        rebalance_timeout_ms=timeout_ms if timeout_ms is not None else -1,
        topic_names=None if topics is None else [TopicName(name) for name in topics],
        topic_regex=regex,
        assignor=assignor,
        owned=owned,
        client_id=client_id,
        client_host="/127.0.0.1",
        new_member_id=MemberId(new_member_id) if new_member_id else NO_MEMBER,
    )


class Driver:
    def __init__(self, topics: Topics, config: GroupDefaults | None = None, log: Sequence[object] = ()) -> None:
        self.topics = topics
        self.config = config or GroupDefaults()
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()
        self.group = self._new_group()
        self.log: list[object] = []
        self.now = Now(1_700_000_000_000, 0)
        for event in log:
            self.log.append(event)
            self.group.apply(event)
        self.apply(self.group.decide_loaded(self.now))

    def _new_group(self) -> ConsumerGroup:
        config = GroupConfig.from_overrides({}, self.config)
        return ConsumerGroup(GROUP, self.config, lambda _: config, self.deadlines, self.topics)

    def apply(self, events: Iterable[object]) -> None:
        for event in events:
            self.group.apply(event)
            if type(event) not in VOLATILE_TYPES:
                self.log.append(event)

    def heartbeat(self, heartbeat: MemberHeartbeat) -> MemberAnswer:
        return self.decide(lambda: self.group.decide_member_heartbeat(heartbeat, self.now))

    def join(self, member_id: str, **options: Any) -> MemberAnswer:
        return self.heartbeat(heartbeat(member_id, **options))

    def decide(self, decide: Callable[[], Decision[ResultT]]) -> ResultT:
        decision = decide()
        assert decide() == decision, "deciding must not mutate"
        self.apply(decision.events)
        return decision.result

    def advance(self, milliseconds: int) -> None:
        """Advances the clock and processes every deadline on the way."""
        until_ms = self.now.monotonic_ms + milliseconds
        while (due_ms := self.deadlines.next_ms()) is not None and due_ms <= until_ms:
            self.now = Now(self.now.wall_ms + due_ms - self.now.monotonic_ms, due_ms)
            key = self.deadlines.next_key()
            assert key is not None
            self.decide(partial(self.group.decide_expired, key[1], key[2], self.now))
            assert self.deadlines.next_key() != key or self.deadlines.next_ms() != due_ms, "a deadline that stays"
        self.now = Now(self.now.wall_ms + until_ms - self.now.monotonic_ms, until_ms)
