"""The APIs of schedules on the wire: what is shown and changed, by whom, and odd requests."""

from typing import Any

import pytest

from headwater.broker.schedule import administration
from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.schedule.alter_scheduled_records import (
    AlteredName,
    AlterScheduledRecordsRequest,
    AlterScheduledRecordsResponse,
)
from headwater.protocol.messages.schedule.describe_schedule import DescribeScheduleRequest, DescribeScheduleResponse
from headwater.protocol.messages.schedule.list_scheduled_records import (
    ListScheduledRecordsRequest,
    ListScheduledRecordsResponse,
    ScheduledName,
    ScheduledRecord,
)
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from headwater.security.principals import ANONYMOUS
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient, records_of
from tests.support.kafka.raw_shares import LONG_MS

CANCEL, DELIVER, MOVE = 0, 1, 2
HOUR_MS = 3_600_000


@pytest.fixture
def topic(client: RawClient, name: str) -> str:
    client.create(name, partitions=2, headwater_delay_enable="true")
    return name


def schedule(client: RawClient, topic: str, *values: bytes, name: str | None = None, partition: int = 0) -> None:
    headers = [("headwater-delay-ms", b"%d" % HOUR_MS)]
    if name is not None:
        headers.append(("headwater-schedule-id", name.encode()))
    records = [Record(index, 0, b"key", value, tuple(headers)) for index, value in enumerate(values)]
    produced = client.produce(topic, bytes(batches.build(records)), partition=partition)
    assert produced.error_code == ErrorCode.NONE, produced.error_message


def ask(client: RawClient, topic: str, **fields: Any) -> ListScheduledRecordsResponse:
    return client.ask(ListScheduledRecordsRequest(topic=topic, **fields), ListScheduledRecordsResponse, 0)


def listed(client: RawClient, topic: str, **fields: Any) -> list[ScheduledRecord]:
    response = ask(client, topic, **fields)
    assert response.error_code == ErrorCode.NONE, response.error_message
    return response.records


def alter(client: RawClient, topic: str, change: int, *names: ScheduledName, due_ms: int = -1) -> list[AlteredName]:
    request = AlterScheduledRecordsRequest(topic=topic, change=change, due_ms=due_ms, names=list(names))
    response = client.ask(request, AlterScheduledRecordsResponse, 0)
    assert response.error_code == ErrorCode.NONE, response.error_message
    return response.results


def place(record: ScheduledRecord) -> ScheduledName:
    return ScheduledName(partition_index=record.partition_index, schedule_offset=record.schedule_offset)


def describe(client: RawClient, *topics: str) -> DescribeScheduleResponse:
    return client.ask(DescribeScheduleRequest(topics=list(topics) or None), DescribeScheduleResponse, 0)


def test_topics_are_described(client: RawClient, topic: str) -> None:
    (before,) = describe(client, topic).topics
    assert (before.error_code, before.partitions) == (ErrorCode.NONE, [])
    schedule(client, topic, b"a", b"b")
    schedule(client, topic, b"c", partition=1)

    (found,) = describe(client, topic).topics
    assert [(each.partition_index, each.pending_count) for each in found.partitions] == [(0, 2), (1, 1)]
    assert all(each.size_bytes > 0 and each.next_due_ms > 0 for each in found.partitions)
    assert topic in [each.name for each in describe(client).topics]
    (missing,) = describe(client, "missing").topics
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_records_are_listed_page_by_page(client: RawClient, topic: str) -> None:
    schedule(client, topic, *(b"%d" % number for number in range(5)), name="five")
    schedule(client, topic, b"other", partition=1)
    found: list[ScheduledRecord] = []
    fields: dict[str, Any] = {}
    while True:
        response = ask(client, topic, limit=2, **fields)
        found += response.records
        if response.is_last:
            break
        last = found[-1]
        fields = {"after_partition": last.partition_index, "after_offset": last.schedule_offset}

    assert [each.partition_index for each in found] == [0, 0, 0, 0, 0, 1]
    assert [each.schedule_id for each in found] == ["five"] * 5 + [None]
    assert {each.value for each in found} == {None}
    assert [each.value for each in listed(client, topic, with_contents=True)] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
        b"other",
    ]


def test_records_are_found_by_place_and_by_id(client: RawClient, topic: str) -> None:
    schedule(client, topic, b"a", name="x")
    schedule(client, topic, b"b", name="y", partition=1)
    first, _ = listed(client, topic)

    def values(*names: ScheduledName) -> list[bytes | None]:
        return [each.value for each in listed(client, topic, names=list(names), with_contents=True)]

    assert values(place(first)) == [b"a"]
    assert values(ScheduledName(schedule_id="y"), ScheduledName(schedule_id="z")) == [b"b"]
    assert values(ScheduledName(partition_index=1, schedule_offset=first.schedule_offset + 1_000_000)) == []
    (record,) = listed(client, topic, names=[ScheduledName(schedule_id="x")], with_contents=True)
    assert [(each.key, each.value) for each in record.headers] == [
        ("headwater-deliver-at", b"%d" % record.due_ms),
        ("headwater-schedule-id", b"x"),
    ]


def test_very_many_records_may_share_an_id(client: RawClient, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found of them is bounded, and a change is about all of them."""
    monkeypatch.setattr(administration, "PAGE_RECORDS_MAX", 2)
    schedule(client, topic, b"a", b"b", b"c", name="x")
    schedule(client, topic, b"d", b"e", name="x", partition=1)
    found = ask(client, topic, names=[ScheduledName(schedule_id="x")])
    assert (len(found.records), found.is_last) == (2, False)
    (cancelled,) = alter(client, topic, CANCEL, ScheduledName(schedule_id="x"))
    assert (cancelled.error_code, cancelled.record_count) == (0, 5)


def test_records_are_cancelled_moved_and_delivered(client: RawClient, topic: str) -> None:
    schedule(client, topic, b"cancelled", b"moved", b"delivered")
    schedule(client, topic, b"named", b"named too", name="x", partition=1)
    cancelled, moved, delivered, *_ = map(place, listed(client, topic))

    assert [each.record_count for each in alter(client, topic, CANCEL, cancelled)] == [1]
    (again,) = alter(client, topic, CANCEL, cancelled)
    assert again.error_code == ErrorCode.RESOURCE_NOT_FOUND
    assert [each.record_count for each in alter(client, topic, CANCEL, ScheduledName(schedule_id="x"))] == [2]
    due_ms = listed(client, topic)[0].due_ms + HOUR_MS
    assert [each.record_count for each in alter(client, topic, MOVE, moved, due_ms=due_ms)] == [1]
    assert [each.record_count for each in alter(client, topic, DELIVER, delivered)] == [1]

    # Behind the batch that was left without records.
    (appeared,) = records_of(client.fetch(topic, 3, wait_ms=LONG_MS))
    assert appeared.value == b"delivered"
    assert [(each.schedule_offset, each.due_ms) for each in listed(client, topic)] == [(moved.schedule_offset, due_ms)]


@pytest.mark.parametrize("due_ms", [-5, 2**62])
def test_a_time_that_is_none_or_too_far_ahead_is_refused(client: RawClient, topic: str, due_ms: int) -> None:
    schedule(client, topic, b"a")
    (refused,) = alter(client, topic, MOVE, place(listed(client, topic)[0]), due_ms=due_ms)
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_odd_requests_are_refused(client: RawClient, topic: str) -> None:
    schedule(client, topic, b"a")
    name = place(listed(client, topic)[0])
    for request, code in (
        (AlterScheduledRecordsRequest(topic="missing", change=0, names=[name]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (AlterScheduledRecordsRequest(topic=topic, change=7, names=[name]), ErrorCode.INVALID_REQUEST),
        (AlterScheduledRecordsRequest(topic=topic, change=0, names=[name] * 1001), ErrorCode.INVALID_REQUEST),
    ):
        assert client.ask(request, AlterScheduledRecordsResponse, 0).error_code == code
    assert ask(client, "missing").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(client, topic, names=[name] * 1001).error_code == ErrorCode.INVALID_REQUEST
    assert listed(client, topic, limit=-1) == []
    for odd in (ScheduledName(partition_index=9, schedule_offset=0), ScheduledName(), ScheduledName(schedule_id="")):
        (refused,) = alter(client, topic, CANCEL, odd)
        assert refused.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.RESOURCE_NOT_FOUND)


def test_rights(name: str) -> None:
    with Broker({"authorizer.class.name": "acl"}) as broker, RawClient(broker) as client:
        rules = broker.node.broker.access.rules
        created = broker.node.broker.topics.create(name, {"headwater.delay.enable": "true"}, partition_count=1)
        broker.call(created)
        any_rule = AclFilter(ResourceType.TOPIC, name, PatternType.LITERAL, None, None, Operation.ANY, Permission.ANY)

        def allow_only(operation: Operation) -> None:
            broker.call(rules.delete([any_rule]))
            user = str(ANONYMOUS)
            rule = Acl(ResourceType.TOPIC, name, PatternType.LITERAL, user, "*", operation, Permission.ALLOW)
            broker.call(rules.create([rule]))

        def cancel() -> AlterScheduledRecordsResponse:
            request = AlterScheduledRecordsRequest(topic=name, change=CANCEL, names=[ScheduledName(schedule_id="x")])
            return client.ask(request, AlterScheduledRecordsResponse, 0)

        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert ask(client, name).error_code == denied
        assert describe(client, name).topics[0].error_code == denied
        assert describe(client).topics == []
        allow_only(Operation.WRITE)
        schedule(client, name, b"secret", name="x")
        assert ask(client, name, with_contents=True).error_code == denied
        allow_only(Operation.DESCRIBE)
        assert [each.value for each in listed(client, name)] == [None]
        assert ask(client, name, with_contents=True).error_code == denied
        assert cancel().error_code == denied
        allow_only(Operation.READ)
        assert listed(client, name, with_contents=True)[0].value == b"secret"
        assert cancel().error_code == denied
        allow_only(Operation.WRITE)
        assert [each.record_count for each in cancel().results] == [1]
