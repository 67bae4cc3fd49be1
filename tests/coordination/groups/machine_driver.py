"""Drives the machine of a shard as the shard does: decides, applies, writes records, answers tickets, advances time.

Every decision is checked to leave the machine as it was, and every ticket to be answered once. The log is what its
records say when they are read back.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from random import Random
from typing import Any, NamedTuple, TypeVar

from headwater.broker.groups.log import GroupFormat
from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.decisions import VOLATILE_TYPES, Decision, Now, Ticket, Waiting
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.events import Event
from headwater.coordination.groups.group import Group
from headwater.coordination.groups.machine import GroupMachine
from headwater.coordination.groups.offsets.events import (
    CommittedOffset,
    OffsetCommitted,
    TransactionalOffsetCommitted,
    TransactionEnded,
)
from headwater.coordination.groups.terms import DeadlineKey, GroupState
from headwater.ids import NO_TOPIC_ID, GroupId, ProducerId, TopicName
from tests.coordination.groups.one_group import OneGroup
from tests.support.coordination.consumer_driver import Topics

ResultT = TypeVar("ResultT")

FORMAT = GroupFormat()
START = Now(1_700_000_000_000, 0)
# A classic group is complete as soon as its first member has joined, once time moves at all.
SETTINGS = GroupDefaults(group_initial_rebalance_delay_ms=0)

# Where a record that is part of a transaction ends, if not at a marker that commits it.
_ABORTED = -1


class Record(NamedTuple):
    """An event as the log has it."""

    # None for what ends a transaction.
    key: bytes | None
    is_tombstone: bool
    event: Event


class MachineDriver:
    def __init__(self, topics: Topics, config: GroupDefaults = SETTINGS) -> None:
        self.topics = topics
        self.config = config
        self.groups_max = 100
        self.bytes_max = 1 << 30
        group_config = GroupConfig.from_overrides({}, config)
        self.machine = GroupMachine(
            config,
            lambda _: group_config,
            topics,
            lambda: len(self.machine.groups) < self.groups_max,
            lambda: self.bytes_max - self.machine.weight,
        )
        self.now = START
        self.records: list[Record] = []
        # Answers to requests that had waited, and the tickets of those that still wait.
        self.answers: dict[Ticket, Any] = {}
        self.waiting: set[Ticket] = set()
        self._tickets = 0
        # What it knew at the last decision, if nothing has happened since.
        self._snapshot: object | None = None

    def group(self, group_id: str) -> OneGroup:
        return OneGroup(self, GroupId(group_id))

    # -- deciding

    def perform(self, decide: Callable[[], Decision[ResultT]]) -> ResultT:
        return self.take(decide).result

    def take(self, decide: Callable[[], Decision[ResultT]]) -> Decision[ResultT]:
        before = self._snapshot = self._snapshot or self.snapshot()
        try:
            decision = decide()
        finally:
            assert self.snapshot() == before, "deciding must not mutate"
        if decision.events:
            self._snapshot = None
        for event in decision.events:
            self.machine.apply(event)
            if type(event) not in VOLATILE_TYPES:
                self._write(event)
        for ticket, result in decision.answers:
            self.waiting.remove(ticket)
            self.answers[ticket] = result
        return decision

    def request(self, decide: Callable[[Ticket], Decision[ResultT | Waiting]]) -> ResultT | Ticket:
        """The result, or the ticket under which the answer will come."""
        self._tickets += 1
        ticket = Ticket(self._tickets)
        result = self.perform(lambda: decide(ticket))
        if not isinstance(result, Waiting):
            return result
        self.waiting.add(ticket)
        return ticket

    def _write(self, event: Any) -> None:
        if isinstance(event, TransactionEnded):
            self.records.append(Record(None, False, event))
            return
        key, value = FORMAT.encode(event)
        read = FORMAT.decode(key, value)
        assert read is not None
        if isinstance(event, TransactionalOffsetCommitted):
            assert isinstance(read, OffsetCommitted)
            # Its batch says so.
            read = TransactionalOffsetCommitted(event.producer_id, event.producer_epoch, *read)
        self.records.append(Record(key, value is None, read))

    @property
    def log(self) -> Sequence[Event]:
        return [record.event for record in self.records]

    # -- groups as wholes

    def delete(self, group_id: str) -> Sequence[object]:
        return self.take(lambda: self.machine.decide_delete(GroupId(group_id))).events

    def expire(self) -> Sequence[object]:
        return self.take(lambda: self.machine.decide_expire(self.now)).events

    def forget_topics(self, *names: str) -> None:
        self.perform(lambda: self.machine.decide_forget_topics([TopicName(name) for name in names]))

    def end_transaction(self, producer_id: int, *, is_committed: bool, epoch: int = 0) -> None:
        self.perform(lambda: self.machine.decide_end_transaction(ProducerId(producer_id), epoch, 0, is_committed, 1))

    # -- time

    def pass_time(self, milliseconds: int) -> None:
        """Advances the clock and processes every deadline on the way."""
        until_ms = self.now.monotonic_ms + milliseconds
        seen: Counter[tuple[DeadlineKey | None, int]] = Counter()
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= until_ms:
            self._move_to(max(due_ms, self.now.monotonic_ms))
            due = self.machine._deadlines.next_key(), due_ms
            seen[due] += 1
            # A first rebalance that has no delay is prolonged by nothing, once for everybody who came.
            assert seen[due] <= 2, "the shard would spin"
            assert self.take(lambda: self.machine.decide_due(self.now)).events, "a deadline that is due must move or go"
        self._move_to(until_ms)

    def _move_to(self, monotonic_ms: int) -> None:
        self.now = Now(self.now.wall_ms + monotonic_ms - self.now.monotonic_ms, monotonic_ms)

    @property
    def deadlines(self) -> Mapping[DeadlineKey, int]:
        return self.machine._deadlines._due_ms

    # -- restarts

    def replayed(self, records: Sequence[Record] | None = None) -> "MachineDriver":
        """Another machine, rebuilt from the log alone."""
        other = MachineDriver(self.topics, self.config)
        other.now, other._tickets = self.now, self._tickets
        other.read_on(self.records if records is None else records)
        return other

    def read_on(self, records: Sequence[Record]) -> None:
        """Reads what is new in a log of which it has read the beginning, and decided nothing since."""
        unread = records[len(self.records) :]
        for record in unread:
            self.machine.apply(record.event)
        self.records += unread
        assert not self.deadlines, "a log that is read knows no time"

    def restarted(self, records: Sequence[Record] | None = None) -> "MachineDriver":
        other = self.replayed(records)
        other.perform(lambda: other.machine.decide_loaded(other.now))
        return other

    def compacted(self, random: Random, *, tombstones_kept: float) -> Sequence[Record]:
        """Before all transactions that are open: the last record of each key, beside those that were aborted. Some of
        those that only say that a key is gone are gone as well, and some markers that nothing is left for."""
        fates = self._fates()
        stable = min((index for index, fate in fates.items() if fate is None), default=len(self.records))
        committed = {
            index: record.key
            for index, record in enumerate(self.records[:stable])
            if record.key is not None and fates.get(index) != _ABORTED
        }
        last = {key: index for index, key in committed.items()}
        kept = {
            index
            for index, key in committed.items()
            if last[key] == index and (not self.records[index].is_tombstone or random.random() < tombstones_kept)
        }
        kept.update(range(stable, len(self.records)))
        needed = {fates[index] for index in kept & fates.keys()}
        for index, record in enumerate(self.records):
            if record.key is None and (index in needed or random.random() < tombstones_kept):
                kept.add(index)
        return [self.records[index] for index in sorted(kept)]

    def _fates(self) -> Mapping[int, int | None]:
        """For each record inside a transaction where that ends: at its marker, in `_ABORTED`, or not yet."""
        open_records: dict[int, list[int]] = {}
        fates: dict[int, int | None] = {}
        for index, (_, _, event) in enumerate(self.records):
            if isinstance(event, TransactionalOffsetCommitted):
                open_records.setdefault(event.producer_id, []).append(index)
            elif isinstance(event, TransactionEnded):
                fate = index if event.is_committed else _ABORTED
                fates.update(dict.fromkeys(open_records.pop(event.producer_id, ()), fate))
        fates.update(dict.fromkeys(chain.from_iterable(open_records.values())))
        return fates

    # -- state

    def snapshot(self) -> object:
        groups = {group_id: _everything_of(group) for group_id, group in self.machine.groups.items()}
        offsets = self.machine.offsets
        pending = offsets._pending._groups, offsets._pending._producers
        return groups, _copied(offsets._committed._groups), [_copied(each) for each in pending], dict(self.deadlines)

    def offsets(self) -> Mapping[tuple[str, str, int], CommittedOffset]:
        """All that is committed, as far as its records tell it."""
        return {
            (group_id, topic, partition): committed
            if committed.expire_timestamp_ms == -1
            else committed._replace(topic_id=NO_TOPIC_ID)
            for group_id, topic, partition, committed in self.machine.offsets._committed.everything()
        }

    def pending(self) -> Mapping[tuple[str, str, int], Sequence[tuple[int, int]]]:
        """By partition: the pending offset of each producer's transaction, in log order."""
        return {
            (group_id, *where): [(producer_id, committed.offset) for producer_id, committed in offsets.items()]
            for group_id, partitions in self.machine.offsets._pending._groups.items()
            for where, offsets in partitions.items()
        }

    def durable(self) -> Mapping[str, object]:
        """The state of groups that a log must rebuild, without groups that consist only of offsets."""
        views = {group_id: _durable_of(group) for group_id, group in self.machine.groups.items()}
        return {group_id: view for group_id, view in views.items() if view is not None}


def _everything_of(group: Group) -> object:
    if isinstance(group, ClassicGroup):
        roster = group.roster
        return {each.name: _copied(getattr(roster, each.name)) for each in fields(roster) if each.name != "deadlines"}
    assert isinstance(group, ConsumerGroup)
    return {name: _copied(value) for name, value in vars(group.roster).items() if name != "_deadlines"}


def _copied(value: Any) -> object:
    """What is held in containers cannot change."""
    if isinstance(value, dict):
        return {key: _copied(held) for key, held in value.items()}
    return value.copy() if isinstance(value, set | list) else value


def _durable_of(group: Group) -> object | None:
    """The durable state of a group; None if a restart may forget all of it."""
    if isinstance(group, ClassicGroup):
        roster = group.roster
        if roster.state is not GroupState.STABLE:
            return None
        members = [member.stored(roster.protocol) for member in roster.members.values()]
        return "classic", roster.generation, roster.protocol_type, roster.protocol, roster.leader, members
    assert isinstance(group, ConsumerGroup)
    membership = group.roster
    members = {}
    for member_id, (details, current) in membership.members.items():
        classic = details.classic and details.classic._replace(protocols=tuple(details.classic.protocols))
        members[member_id] = details._replace(classic=classic), current
    return (
        "consumer",
        membership.epoch,
        membership.metadata_hash,
        membership.assignment_epoch,
        members,
        membership.targets,
        membership.regexes,
        membership.static_members,
        membership.subscribers,
        membership.classic_count,
        membership._owners,
    )
