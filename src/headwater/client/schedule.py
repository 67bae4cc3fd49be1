"""Scheduled records: how many there are, which, and how they are cancelled, moved or delivered at once.

    schedule = Schedule(cluster, "reminders")
    schedule.cancel(ScheduleId("invoice-7"))

Only Headwater's brokers have schedules.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from headwater.client.cluster import Cluster
from headwater.client.errors import Refused, UnknownTopic, check
from headwater.errors import ErrorCode
from headwater.protocol.batches.records import Headers
from headwater.protocol.messages.schedule import list_scheduled_records as messages
from headwater.protocol.messages.schedule.alter_scheduled_records import (
    AlterScheduledRecordsRequest,
    AlterScheduledRecordsResponse,
)
from headwater.protocol.messages.schedule.describe_schedule import DescribeScheduleRequest, DescribeScheduleResponse
from headwater.protocol.messages.schedule.list_scheduled_records import (
    ListScheduledRecordsRequest,
    ListScheduledRecordsResponse,
    ScheduledName,
)

_CANCEL, _DELIVER_NOW, _MOVE = 0, 1, 2
_PAGE_RECORDS = 500


class Place(NamedTuple):
    """A record's place, written 3-1041: of a scheduled record the partition in which it will appear, and where it lies
    in the schedule; of a dead letter its partition and offset in the dead-letter topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"


class ScheduleId(NamedTuple):
    """The id that a producer gave to one or several records, with the header headwater-schedule-id."""

    text: str

    def __str__(self) -> str:
        return self.text


Name: TypeAlias = Place | ScheduleId


class PendingPartition(NamedTuple):
    """`next_due_ms` is None if all records wait for the end of a transaction."""

    topic: str
    partition: int
    record_count: int
    size_bytes: int
    next_due_ms: int | None


class ScheduledRecord(NamedTuple):
    """Key, value and headers are those with which it will appear. They are None unless they were asked for."""

    place: Place
    schedule_id: str | None
    due_ms: int
    size_bytes: int
    # False if the broker cannot read it any more, because its disk is damaged there.
    is_readable: bool
    key: bytes | None
    value: bytes | None
    headers: Headers


class Altered(NamedTuple):
    """What became of one name: the number of records that were changed, or why none was."""

    name: Name
    record_count: int
    refusal: Refused | None


def pending(cluster: Cluster, topics: Sequence[str] | None = None) -> list[PendingPartition]:
    """How much is scheduled, in these topics or in all."""
    request = DescribeScheduleRequest(topics=None if topics is None else list(topics))

    def read(response: DescribeScheduleResponse) -> DescribeScheduleResponse:
        check(response.error_code, "the schedule", response.error_message)
        return response

    response = cluster.ask_any(request, DescribeScheduleResponse, read)
    found: list[PendingPartition] = []
    for topic in response.topics:
        _check(topic.error_code, topic.name, topic.error_message)
        found += [
            PendingPartition(
                topic.name,
                each.partition_index,
                each.pending_count,
                each.size_bytes,
                each.next_due_ms if each.next_due_ms >= 0 else None,
            )
            for each in topic.partitions
        ]
    return found


class Schedule:
    """The scheduled records of one topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.clock = cluster.clock
        self._cluster = cluster
        self._topic = topic

    def records(self, *, with_contents: bool = False) -> Iterator[ScheduledRecord]:
        """All of them, by partition and in the order in which they were produced; asks for a page at a time."""
        after = Place(-1, -1)
        is_last = False
        while not is_last:
            response = self._list(
                ListScheduledRecordsRequest(
                    topic=self._topic,
                    after_partition=after.partition,
                    after_offset=after.offset,
                    limit=_PAGE_RECORDS,
                    with_contents=with_contents,
                )
            )
            is_last = response.is_last or not response.records
            for each in response.records:
                record = _record(each)
                after = record.place
                yield record

    def find(self, *names: Name) -> list[ScheduledRecord]:
        """Those of these names that are still scheduled, with their contents; the first 1,000, if there are more."""
        request = ListScheduledRecordsRequest(
            topic=self._topic, names=[_stated(name) for name in names], with_contents=True
        )
        return [_record(each) for each in self._list(request).records]

    def cancel(self, *names: Name) -> list[Altered]:
        """They will not appear."""
        return self._alter(names, _CANCEL)

    def deliver(self, *names: Name) -> list[Altered]:
        """They appear at once."""
        return self._alter(names, _DELIVER_NOW)

    def move(self, due_ms: int, *names: Name) -> list[Altered]:
        """They appear at another time."""
        return self._alter(names, _MOVE, due_ms)

    def _list(self, request: ListScheduledRecordsRequest) -> ListScheduledRecordsResponse:
        def read(response: ListScheduledRecordsResponse) -> ListScheduledRecordsResponse:
            _check(response.error_code, self._topic, response.error_message)
            return response

        return self._cluster.ask_any(request, ListScheduledRecordsResponse, read)

    def _alter(self, names: Sequence[Name], change: int, due_ms: int = -1) -> list[Altered]:
        request = AlterScheduledRecordsRequest(
            topic=self._topic, change=change, due_ms=due_ms, names=[_stated(name) for name in names]
        )

        def read(response: AlterScheduledRecordsResponse) -> list[Altered]:
            _check(response.error_code, self._topic, response.error_message)
            return [
                Altered(
                    name,
                    each.record_count,
                    Refused(each.error_code, f"record {name}", each.error_message) if each.error_code else None,
                )
                for name, each in zip(names, response.results, strict=True)
            ]

        return self._cluster.ask_any(request, AlterScheduledRecordsResponse, read)


def _check(code: int, topic: str, message: str | None) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # UnknownTopic is not retriable: a person who misspelt the name should not wait.
        raise UnknownTopic(f"topic {topic!r} does not exist")
    check(code, f"the schedule of topic '{topic}'", message)


def _stated(name: Name) -> ScheduledName:
    if isinstance(name, Place):
        return ScheduledName(partition_index=name.partition, schedule_offset=name.offset)
    return ScheduledName(schedule_id=name.text)


def _record(told: messages.ScheduledRecord) -> ScheduledRecord:
    return ScheduledRecord(
        Place(told.partition_index, told.schedule_offset),
        told.schedule_id,
        told.due_ms,
        told.size_bytes,
        told.is_readable,
        told.key,
        told.value,
        tuple((each.key, each.value) for each in told.headers),
    )
