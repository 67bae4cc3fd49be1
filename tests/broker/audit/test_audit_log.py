"""The audit log: what is recorded, how much of it, and that nobody waits for it."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from headwater.broker.audit import audit_log
from headwater.broker.audit.event import EventType, Result
from headwater.broker.broker import Broker
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import AUDIT_TOPIC
from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches import batch as batches
from headwater.security.acl import CLUSTER, Acl, Operation, PatternType, Permission, ResourceType, topic
from headwater.security.principals import user
from tests.support.broker.embedded_broker import running

ANN = user("ann")
HOST = "10.0.0.1"


async def recorded(broker: Broker) -> list[dict[str, Any]]:
    """All events so far, each without its id and time."""
    assert broker.access.audit is not None
    await broker.access.audit.stop()
    await broker.journal.drain()
    events: list[dict[str, Any]] = []
    for partition in broker.hosted(AUDIT_TOPIC):
        written = partition.read_written(0, 1 << 20, partition.end_offset).read()
        for header, batch in batches.iterate(written):
            events += [orjson.loads(record.value or b"") for record in batches.read_records(batch, header, 1 << 20)]
    assert len({event.pop("id") for event in events}) == len(events)
    assert all(event.pop("timestamp") for event in events)
    return events


async def test_a_denied_operation_is_recorded_with_the_rule_that_denied_it(tmp_path: Path) -> None:
    async with running(tmp_path, {"authorizer.class.name": "acl"}) as broker:
        rule = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, str(ANN), "*", Operation.READ, Permission.DENY)
        await broker.access.rules.create([rule])
        guard = broker.access.guard(ANN, HOST)
        assert not guard.reads("orders")
        assert not guard.allows(Operation.ALTER, CLUSTER)
        denied, unruled = await recorded(broker)
    assert denied == {
        "type": "access.denied",
        "user": "User:ann",
        "client_ip": HOST,
        "resource": "topic 'orders'",
        "result": "denied",
        "details": {"operation": "read", "reason": "User:ann may not read topic 'orders'"},
        "node": 1,
    }
    assert unruled["details"] == {"operation": "alter", "reason": "no rule allows it"}


async def test_probes_and_allowed_operations_are_not_recorded_unless_asked_for(tmp_path: Path) -> None:
    for granted in ("false", "true"):
        settings = {
            "authorizer.class.name": "acl",
            "super.users": str(ANN),
            "headwater.audit.granted": granted,
        }
        async with running(tmp_path / granted, settings) as broker:
            assert broker.access.guard(ANN, HOST).writes("orders")
            assert not broker.access.guard(user("ben"), HOST).allows(Operation.READ, topic("a"), is_probe=True)
            assert [event["type"] for event in await recorded(broker)] == ["access.granted"] * (granted == "true")


async def test_a_change_is_recorded_with_its_outcome(tmp_path: Path) -> None:
    async with running(tmp_path, {"headwater.audit": "on"}) as broker:
        guard = broker.access.guard(ANN, HOST)
        with guard.change(EventType.TOPIC_CREATE, str(topic("orders")), {"partitions": "3"}):
            pass
        with (
            pytest.raises(Refusal),
            guard.change(EventType.TOPIC_DELETE, str(topic("orders"))),
        ):
            raise Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "deletion is switched off")
        made, failed = await recorded(broker)
    assert (made["type"], made["result"], made["details"]) == ("topic.create", "success", {"partitions": "3"})
    assert failed["result"] == "failure"
    assert failed["details"] == {"error": "TOPIC_DELETION_DISABLED", "reason": "deletion is switched off"}


async def test_without_security_nothing_is_recorded_and_no_topic_is_made(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert broker.access.audit is None
        with broker.access.guard(ANN, HOST).change(EventType.TOPIC_CREATE, "topic 'orders'"):
            pass
        assert broker.topics.find(AUDIT_TOPIC) is None


async def test_events_beyond_the_limit_are_counted_instead_of_recorded(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = {"headwater.audit": "on", "headwater.audit.events.per.second.max": "10"}
    async with running(tmp_path, settings, clock=clock) as broker:
        audit = broker.access.audit
        assert audit is not None
        for _ in range(25):
            audit.record(EventType.AUTHENTICATION_FAILURE, ANN, HOST, "", Result.FAILURE)
        clock.advance(1000)
        audit.record(EventType.AUTHENTICATION_SUCCESS, ANN, HOST, "", Result.SUCCESS)
        events = await recorded(broker)
    assert [event["type"] for event in events] == ["auth.failure"] * 10 + ["auth.success", "audit.suppressed"]
    assert events[-1]["details"] == {"events": "15"}
    assert audit.suppressed_total == 15


async def test_a_flood_that_ends_in_silence_is_counted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "SUPPRESSED_TOLD_AFTER_S", 0)
    settings = {"headwater.audit": "on", "headwater.audit.events.per.second.max": "1"}
    async with running(tmp_path, settings, clock=ManualClock()) as broker:
        audit = broker.access.audit
        assert audit is not None
        audit.record(EventType.AUTHENTICATION_FAILURE, ANN, HOST, "", Result.FAILURE)
        await recorded(broker)
        for _ in range(3):
            audit.record(EventType.AUTHENTICATION_FAILURE, ANN, HOST, "", Result.FAILURE)
        (partition,) = broker.hosted(AUDIT_TOPIC)
        while partition.end_offset < 2:
            await asyncio.sleep(0)
        events = await recorded(broker)
    assert [(event["type"], event["details"]) for event in events[1:]] == [("audit.suppressed", {"events": "3"})]


async def test_values_that_clients_choose_are_bounded_and_always_text(tmp_path: Path) -> None:
    async with running(tmp_path, {"headwater.audit": "on"}) as broker:
        audit = broker.access.audit
        assert audit is not None
        audit.record(EventType.ACCESS_DENIED, user("\ud800" * 5), HOST, "x" * 100_000, Result.DENIED)
        (event,) = await recorded(broker)
    assert event["user"] == "User:?????"
    assert len(event["resource"]) == 1000


async def test_the_topic_is_deleted_by_age_and_clients_cannot_write_it(tmp_path: Path) -> None:
    async with running(tmp_path, {"headwater.audit": "on"}) as broker:
        audit = broker.access.audit
        assert audit is not None
        audit.record(EventType.ACCESS_DENIED, ANN, HOST, "", Result.DENIED)
        await recorded(broker)
        found = broker.topics.find(AUDIT_TOPIC)
        assert found is not None
        assert found.overrides["cleanup.policy"] == "delete"
        with pytest.raises(Refusal, match="internal"):
            await broker.topics.delete(AUDIT_TOPIC)
        await broker.configs.change_topic(AUDIT_TOPIC, lambda before: {**before, "retention.ms": "1000"})
        with pytest.raises(Refusal, match="stays 'delete'"):
            await broker.configs.change_topic(AUDIT_TOPIC, lambda before: {**before, "cleanup.policy": "compact"})


async def test_events_survive_a_restart(tmp_path: Path) -> None:
    for number in range(2):
        async with running(tmp_path, {"headwater.audit": "on"}) as broker:
            audit = broker.access.audit
            assert audit is not None
            audit.record(EventType.ACCESS_DENIED, user(f"user-{number}"), HOST, "", Result.DENIED)
            await asyncio.sleep(0)
    async with running(tmp_path, {"headwater.audit": "on"}) as broker:
        assert [event["user"] for event in await recorded(broker)] == ["User:user-0", "User:user-1"]
