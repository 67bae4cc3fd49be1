"""A bug of ours keeps a reply from being made: its connection is closed at once, one line of the log and one count say
so, and clients whose replies were made ready in the same moment get theirs."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from headwater.broker.partition import Partition
from headwater.coordination.groups.machine import GroupMachine
from headwater.listeners.kafka import conversation
from headwater.listeners.kafka.apis.groups import heartbeat as heartbeat_api
from headwater.listeners.kafka.apis.records import fetch as fetch_api
from headwater.listeners.kafka.apis.records import produce as produce_api
from headwater.listeners.kafka.apis.topics import metadata as metadata_api
from headwater.listeners.kafka.reply_templates import ReplyTemplates
from headwater.listeners.tcp.output import Output
from headwater.protocol.messages.groups.heartbeat import HeartbeatRequest
from headwater.protocol.messages.records.fetch import FetchResponse
from headwater.protocol.messages.records.produce import ProduceResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.wire.schema import Request
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually
from tests.support.kafka import raw_groups
from tests.support.kafka.raw_client import RawClient, batch_of, fetch_request, produce_request

LONG_MS = 600_000
BATCH = batch_of(b"value")

Break = Callable[[pytest.MonkeyPatch, str], None]


def fail(*_: object, **__: object) -> NoReturn:
    raise ZeroDivisionError("a bug")


@pytest.fixture
def victim(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as victim:
        yield victim


def failed_count(broker: Broker) -> int:
    return broker.node.broker.measurements.replies_failed.value


def the_error(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return record


def break_method(owner: type, name: str) -> Break:
    return lambda patch, _topic: patch.setattr(owner, name, fail)


def break_function(module: object, name: str) -> Break:
    return lambda patch, _topic: patch.setattr(module, name, fail)


def heartbeat_request(group: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")


@pytest.mark.parametrize(
    ("break_it", "request_of", "version"),
    [
        (break_method(ReplyTemplates, "learn"), lambda topic: produce_request({topic: {0: BATCH}}), 9),
        (break_method(ReplyTemplates, "learn"), lambda topic: produce_request({topic: {0: BATCH}}, acks=1), 9),
        (break_function(produce_api, "_partition_response"), lambda topic: produce_request({topic: {9: BATCH}}), 9),
        (break_function(fetch_api, "_response"), lambda topic: fetch_request({topic: {0: 0}}), 12),
        (break_function(conversation, "reply_frame_parts"), lambda topic: fetch_request({topic: {0: 0}}), 12),
        (break_function(conversation, "reply_frame_parts"), lambda _: MetadataRequest(topics=[]), 9),
        (break_function(conversation, "nonzero_errors"), lambda _: MetadataRequest(topics=[]), 9),
        (break_function(metadata_api, "MetadataResponse"), lambda _: MetadataRequest(topics=[]), 9),
        (break_method(GroupMachine, "decide_heartbeat"), heartbeat_request, 4),
        (break_function(heartbeat_api, "_response"), heartbeat_request, 4),
        (break_method(Output, "send"), lambda _: MetadataRequest(topics=[]), 9),
    ],
)
def test_a_request_that_cannot_be_answered_ends_its_connection(
    broker: Broker,
    victim: RawClient,
    client: RawClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    break_it: Break,
    request_of: Callable[[str], Request],
    version: int,
) -> None:
    raw_groups.only_member(client, topic)
    before = failed_count(broker)
    with monkeypatch.context() as patch:
        break_it(patch, topic)
        victim.send(request_of(topic), version)
        assert victim.is_closed()

    assert failed_count(broker) == before + 1
    assert "cannot be answered, its connection is closed" in the_error(caplog).getMessage()
    assert caplog.text.count("ZeroDivisionError: a bug") == 1
    assert client.produce(topic, BATCH).error_code == 0


def test_producers_of_the_same_turn_and_flush_get_their_replies(
    broker: Broker,
    victim: RawClient,
    client: RawClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    victims = topic + "-of-the-victim"
    client.create(victims)
    learn = ReplyTemplates.learn

    def learn_or_fail(templates: ReplyTemplates, shape: Any, *arguments: Any) -> None:
        if victims in shape:
            fail()
        learn(templates, shape, *arguments)

    monkeypatch.setattr(ReplyTemplates, "learn", learn_or_fail)
    for number in range(10):
        victim = RawClient(broker)
        victim.send(produce_request({victims: {0: BATCH}}), 9)
        client.send(produce_request({topic: {0: BATCH}}), 9)
        assert client.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset == number
        assert victim.is_closed()
        victim.socket.close()

    assert caplog.text.count("ZeroDivisionError: a bug") == 10
    assert client.offset(victims) == 10, "batches are kept, although nobody was told so"


@pytest.mark.parametrize("broken", [(Partition, "read"), (fetch_api, "_response")])
def test_a_long_poll_that_cannot_be_answered_ends_its_connection_and_others_are_woken(
    broker: Broker,
    victim: RawClient,
    client: RawClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: tuple[Any, str],
) -> None:
    other = topic + "-of-the-victim"
    client.create(other)
    watched = [broker.node.broker.partition(name, 0) for name in (topic, other)]
    owner, name = broken
    original: Callable[..., Any] = getattr(owner, name)

    def fail_for_the_victim(*arguments: Any, **options: Any) -> Any:
        is_victim = arguments[0] is watched[1] if owner is Partition else _reads(arguments, other)
        return fail() if is_victim else original(*arguments, **options)

    with RawClient(broker) as bystander:
        bystander.send(fetch_request({topic: {0: 0}}, wait_ms=LONG_MS), 12)
        victim.send(fetch_request({topic: {0: 0}, other: {0: 0}}, wait_ms=LONG_MS), 12)
        eventually(broker, lambda: len(watched[0].watchers) == 2)
        monkeypatch.setattr(owner, name, fail_for_the_victim)

        client.produce(topic, BATCH)

        assert victim.is_closed()
        assert bystander.receive(FetchResponse, 12)[1].responses[0].partitions[0].high_watermark == 1
    assert not watched[1].watchers
    assert "cannot be answered, its connection is closed" in the_error(caplog).getMessage()
    assert caplog.text.count("ZeroDivisionError: a bug") == 1


def _reads(arguments: tuple[Any, ...], topic: str) -> bool:
    return any(each.topic == topic for each in arguments[0].partitions)
