"""What administrators and applications do with scheduled records: count, list, cancel, move, deliver now.

A record is named by the partition in which it will appear and by its place in the schedule, or by the id that its
producer gave it (`headwater-schedule-id`), which several records may share. A refusal is raised.
"""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.schedule import contents
from headwater.broker.schedule.coordinator import ScheduleCoordinator
from headwater.broker.schedule.split import delivered
from headwater.broker.shards.shard import Outcome
from headwater.broker.topics import Topics
from headwater.coordination.catalog.topic_names import SCHEDULE_TOPIC
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.schedule.commands import ScheduleStatus
from headwater.coordination.schedule.entries import PendingEntry
from headwater.coordination.schedule.events import Contents
from headwater.coordination.schedule.machine import ScheduleMachine
from headwater.coordination.schedule.terms import Target
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.protocol.batches.records import Record

ResultT = TypeVar("ResultT")

# One answer has at most so many records, and, unless its first is larger, bytes of them.
PAGE_RECORDS_MAX = 1000
_PAGE_BYTES_MAX = 1 << 20


class RecordName(NamedTuple):
    """A record by its place, or by the id that its producer gave it."""

    partition: int
    offset: int
    schedule_id: str | None = None


class ScheduledRecord(NamedTuple):
    partition: int
    entry: PendingEntry
    schedule_id: str | None
    # As it will appear; None where it cannot be read.
    record: Record | None


class Page(NamedTuple):
    records: Sequence[ScheduledRecord]
    is_last: bool


class Change(IntEnum):
    CANCEL = 0
    DELIVER_NOW = 1
    MOVE = 2


class ScheduleAdministration:
    def __init__(self, schedule: ScheduleCoordinator, topics: Topics, partitions: HostedPartitions) -> None:
        self._schedule = schedule
        self._topics = topics
        self._partitions = partitions

    async def statuses(self, topic_name: str) -> list[ScheduleStatus]:
        """What is pending, by partition."""
        topic_id = self._topics.existing(topic_name).id
        found: list[ScheduleStatus] = []
        for outcome in await self._schedule.submit_to_all(
            lambda machine, _ticket, _now: Decision((), machine.statuses(topic_id))
        ):
            found += _result(outcome)
        return sorted(found, key=lambda status: status.target.partition)

    async def page(self, topic_name: str, after: RecordName, count_max: int) -> Page:
        """Pending records behind one, by partition and in the order in which they were scheduled."""
        topic = self._topics.existing(topic_name)
        left = min(count_max, PAGE_RECORDS_MAX)
        bytes_left = _PAGE_BYTES_MAX
        records: list[ScheduledRecord] = []
        after_offset = after.offset
        for partition in range(max(after.partition, 0), topic.partition_count):
            target = Target(topic.id, partition)
            entries = await self._entries(target, after_offset, left + 1)
            fitting = _fitting(entries[:left], bytes_left, is_first=not records)
            records += await self._read(target, fitting)
            left -= len(fitting)
            bytes_left -= sum(entry.size for entry in fitting)
            if len(fitting) < len(entries):
                return Page(records, is_last=False)
            after_offset = -1
        return Page(records, is_last=True)

    async def find(self, topic_name: str, names: Sequence[RecordName]) -> Page:
        """The pending records of these names, as many as one page has."""
        records: list[ScheduledRecord] = []
        left, bytes_left = PAGE_RECORDS_MAX, _PAGE_BYTES_MAX
        for name in names:
            for target, offsets in (await self._resolve(topic_name, name, left + 1)).items():
                entries = [each for offset in offsets for each in await self._entries(target, offset - 1, 1)]
                entries = [entry for entry in entries if entry.offset in offsets]
                fitting = _fitting(entries[:left], bytes_left, is_first=not records)
                records += await self._read(target, fitting)
                left -= len(fitting)
                bytes_left -= sum(entry.size for entry in fitting)
                if len(fitting) < len(entries):
                    return Page(records, is_last=False)
        return Page(records, is_last=True)

    async def change(self, topic_name: str, name: RecordName, change: Change, due_ms: int) -> int:
        """Cancel or move the pending records of this name; gives their number, which is at least 1."""
        self._check_time(topic_name, change, due_ms)
        count = 0
        for target, offsets in (await self._resolve(topic_name, name)).items():
            count += await self._change(target, offsets, change, due_ms)
        if not count:
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, "no such record is scheduled: it may have been delivered")
        return count

    async def _change(self, target: Target, offsets: Sequence[int], change: Change, due_ms: int) -> int:
        def decide(machine: ScheduleMachine, _ticket: Ticket, now: Now) -> Decision[int]:
            match change:
                case Change.CANCEL:
                    return machine.decide_cancel(target, offsets)
                case Change.DELIVER_NOW:
                    return machine.decide_move(target, offsets, now.wall_ms, now)
                case Change.MOVE:
                    return machine.decide_move(target, offsets, due_ms, now)

        count = _result(await self._schedule.submit(target.key, decide).wait())
        measurements = self._schedule.measurements
        counter = measurements.cancelled if change is Change.CANCEL else measurements.moved
        counter.value += count
        return count

    def _check_time(self, topic_name: str, change: Change, due_ms: int) -> None:
        if change is not Change.MOVE:
            return
        delay_max_ms = self._schedule.config_of(self._topics.existing(topic_name)).headwater_delay_max_ms
        latest_ms = self._schedule.now_ms() + delay_max_ms
        if not 0 <= due_ms <= latest_ms:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"{due_ms} is no time up to {latest_ms}, as far ahead as the topic takes (headwater.delay.max.ms)",
            )

    async def _resolve(
        self, topic_name: str, name: RecordName, count_max: int | None = None
    ) -> Mapping[Target, Sequence[int]]:
        """The places of the records, by target; all of them, or about as many as `count_max`."""
        topic = self._topics.existing(topic_name)
        if not self._schedule.shards:
            return {}
        if name.schedule_id is None:
            if not 0 <= name.partition < topic.partition_count:
                raise self._topics.unknown_partition(topic_name, name.partition)
            return {Target(topic.id, name.partition): [name.offset]}
        found: dict[Target, Sequence[int]] = {}
        for partition in range(topic.partition_count):
            target = Target(topic.id, partition)
            offsets = await self._with_id(target, name.schedule_id, count_max)
            if offsets:
                found[target] = offsets
            if count_max is not None and sum(map(len, found.values())) >= count_max:
                break
        return found

    async def _with_id(self, target: Target, schedule_id: str, count_max: int | None) -> list[int]:
        candidates = _result(
            await self._schedule.submit(
                target.key, lambda machine, _ticket, _now: Decision((), machine.with_id(target, schedule_id))
            ).wait()
        )
        found: list[int] = []
        # All records of a topic may have the same id, and their contents are large.
        for begin in range(0, len(candidates), PAGE_RECORDS_MAX):
            if count_max is not None and len(found) >= count_max:
                break
            step = candidates[begin : begin + PAGE_RECORDS_MAX]
            read = await self._contents(target, step)
            found += [offset for offset in step if offset in read and read[offset].schedule_id == schedule_id]
        return found

    async def _entries(self, target: Target, after_offset: int, count_max: int) -> list[PendingEntry]:
        if not self._schedule.shards:
            return []
        return _result(
            await self._schedule.submit(
                target.key,
                lambda machine, _ticket, _now: Decision((), machine.page(target, after_offset, count_max)),
            ).wait()
        )

    async def _read(self, target: Target, entries: Sequence[PendingEntry]) -> list[ScheduledRecord]:
        found = await self._contents(target, [entry.offset for entry in entries])
        records: list[ScheduledRecord] = []
        for entry in entries:
            read = found.get(entry.offset)
            record = None if read is None else delivered(read, entry.offset, entry.due_ms)
            records.append(ScheduledRecord(target.partition, entry, None if read is None else read.schedule_id, record))
        return records

    async def _contents(self, target: Target, offsets: Sequence[int]) -> Mapping[int, Contents]:
        if not offsets:
            return {}
        log = self._partitions.by_topic[SCHEDULE_TOPIC][self._schedule.partition_of(target.key)]
        return (await contents.read(log, offsets)).contents


def _result(outcome: Outcome[ResultT]) -> ResultT:
    if isinstance(outcome, HeadwaterError):
        raise outcome
    return outcome


def _fitting(entries: Sequence[PendingEntry], bytes_max: int, *, is_first: bool) -> Sequence[PendingEntry]:
    """As many as there is room for; the first of all whatever its size."""
    for number, entry in enumerate(entries):
        bytes_max -= entry.size
        if bytes_max < 0 and (number or not is_first):
            return entries[:number]
    return entries
