"""Subscriptions of a WebSocket: pushed records, credit, resumption, and clients that are slow."""

from uuid import uuid4

import pytest

from headwater.testing import Broker
from tests.support.broker.on_loop import eventually, on_loop
from tests.support.http.client import HttpClient
from tests.support.http.inside import services_of
from tests.support.http.websocket import WebSocketClient


@pytest.fixture
def topic(http: HttpClient) -> str:
    name = f"sub-{uuid4().hex}"
    assert http.post("/v1/topics", {"name": name, "partitions": 2}).status == 201
    return name


def produce(http: HttpClient, topic: str, *values: str, partition: int = 0) -> None:
    records = [{"value": value, "partition": partition} for value in values]
    assert http.post(f"/v1/topics/{topic}/records", {"records": records}).status == 200


def values(client: WebSocketClient, count: int) -> list[str]:
    return [each["value"] for each in client.messages(count)]


class TestTopics:
    def test_records_are_pushed_as_they_come(self, broker: Broker, http: HttpClient, topic: str) -> None:
        produce(http, topic, "before")
        with WebSocketClient(broker) as client:
            answer = client.do("subscribe", {"topic": topic})
            assert answer == {"subscription": "s1", "positions": "0:1,1:0"}
            produce(http, topic, "a")
            (message,) = client.messages(1)
            assert (message["subscription"], message["topic"]) == ("s1", topic)
            assert (message["partition"], message["offset"], message["value"]) == (0, 1, "a")
            assert client.do("unsubscribe", {"subscription": "s1"})["positions"] == "0:2,1:0"
            produce(http, topic, "b")
            assert client.do("list_topics")
            assert not client.pushed

    def test_credit_bounds_what_is_pushed(self, broker: Broker, http: HttpClient, topic: str) -> None:
        produce(http, topic, *map(str, range(10)))
        with WebSocketClient(broker) as client:
            client.do("subscribe", {"topic": topic, "offset": "earliest", "credit": 3, "subscription": "mine"})
            assert values(client, 3) == ["0", "1", "2"]
            assert client.do("list_topics")
            assert not client.pushed
            given = client.do("credit", {"subscription": "mine", "records": 4})
            assert given == {"subscription": "mine", "credit": 4}
            assert values(client, 4) == ["3", "4", "5", "6"]
            assert client.do("list_topics")
            assert not client.pushed
            assert client.ask("credit", {"subscription": "mine", "records": 10_001})["error"]["status"] == 400
            client.do("credit", {"subscription": "mine", "records": 10_000})
            assert client.ask("credit", {"subscription": "mine", "records": 10_000})["error"]["status"] == 400

    def test_resumed_after_what_was_seen(self, broker: Broker, http: HttpClient, topic: str) -> None:
        produce(http, topic, "a", "b", "c")
        produce(http, topic, "x", partition=1)
        with WebSocketClient(broker) as client:
            name = client.do("subscribe", {"topic": topic, "offset": "earliest", "credit": 2})["subscription"]
            seen = values(client, 2)
            positions = client.do("unsubscribe", {"subscription": name})["positions"]
        with WebSocketClient(broker) as client:
            client.do("subscribe", {"topic": topic, "after": positions})
            assert sorted(seen + values(client, 2)) == ["a", "b", "c", "x"]

    def test_deleted_records_and_topics(self, broker: Broker, http: HttpClient, topic: str) -> None:
        produce(http, topic, "a", "b")
        assert http.post(f"/v1/topics/{topic}/partitions/0/truncate", {"offset": 1}).status == 200
        with WebSocketClient(broker) as client:
            client.do("subscribe", {"topic": topic, "after": "0:0,1:0"})
            missing = client.push()
            assert missing == {
                "command": "missing",
                "data": {"subscription": "s1", "partition": 0, "from": 0, "to": 1},
            }
            assert values(client, 1) == ["b"]
            assert http.ask("DELETE", f"/v1/topics/{topic}").status == 204
            ended = client.push()
            assert (ended["command"], ended["data"]["positions"]) == ("ended", "0:2,1:0")
            assert ended["data"]["error"]["status"] == 404
            assert client.ask("unsubscribe", {"subscription": "s1"})["error"]["status"] == 404

    def test_names_and_their_number(self, broker: Broker, topic: str) -> None:
        with WebSocketClient(broker) as client:
            client.do("subscribe", {"topic": topic, "subscription": "s1"})
            assert client.ask("subscribe", {"topic": topic, "subscription": "s1"})["error"]["status"] == 409
            assert client.do("subscribe", {"topic": topic})["subscription"] == "s2"
            for _ in range(30):
                client.do("subscribe", {"topic": topic, "partitions": [0]})
            refused = client.ask("subscribe", {"topic": topic})["error"]
            assert refused["status"] == 429
            assert "headwater.http.websocket.subscriptions.max" in refused["detail"]
            client.do("unsubscribe", {"subscription": "s1"})
            client.do("subscribe", {"topic": topic})


class TestQueues:
    def test_pushed_with_receipts(self, broker: Broker, http: HttpClient, topic: str) -> None:
        group = f"workers-{uuid4().hex}"
        produce(http, topic, "a", "b", "c")
        with WebSocketClient(broker) as client:
            client.do("subscribe", {"topic": topic, "queue": group, "offset": "earliest", "credit": 2})
            first, second = client.messages(2)
            assert [first["value"], second["value"], first["delivery_count"]] == ["a", "b", 1]
            assert client.do("ack", {"group": group, "receipts": [first["receipt"]]}) == {"results": [{}]}
            assert client.do("nack", {"group": group, "receipts": [second["receipt"]]}) == {"results": [{}]}
            client.do("credit", {"subscription": "s1", "records": 2})
            again = sorted(client.messages(2), key=lambda each: each["value"])
            assert [(each["value"], each["delivery_count"]) for each in again] == [("b", 2), ("c", 1)]

    def test_two_clients_share_a_queue(self, broker: Broker, http: HttpClient, topic: str) -> None:
        group = f"workers-{uuid4().hex}"
        with WebSocketClient(broker) as first, WebSocketClient(broker) as second:
            for client in (first, second):
                client.do("subscribe", {"topic": topic, "queue": group, "offset": "earliest", "credit": 2})
            produce(http, topic, "a", "b")
            produce(http, topic, "c", "d", partition=1)
            found = values(first, 2) + values(second, 2)
            assert sorted(found) == ["a", "b", "c", "d"]

    def test_a_subscription_that_only_waits_takes_nothing_along(
        self, broker: Broker, http: HttpClient, topic: str
    ) -> None:
        group = f"workers-{uuid4().hex}"
        with WebSocketClient(broker) as first:
            first.do("subscribe", {"topic": topic, "queue": group, "offset": "earliest"})
            first.do("unsubscribe", {"subscription": "s1"})
            produce(http, topic, "a")
            with WebSocketClient(broker) as second:
                second.do("subscribe", {"topic": topic, "queue": group, "offset": "earliest", "credit": 1})
                assert [each["delivery_count"] for each in second.messages(1)] == [1]

    def test_what_a_queue_does_not_have(self, broker: Broker, topic: str) -> None:
        with WebSocketClient(broker) as client:
            for field in ({"partitions": [0]}, {"after": "0:0"}, {"group": "g"}):
                assert client.ask("subscribe", {"topic": topic, "queue": "q", **field})["error"]["status"] == 400


def test_a_slow_subscriber_holds_up_itself_alone(broker: Broker, http: HttpClient, topic: str) -> None:
    count, size = 300, 50_000
    with WebSocketClient(broker, max_queue=1) as slow, WebSocketClient(broker) as quick:
        for client in (slow, quick):
            client.do("subscribe", {"topic": topic, "credit": 10_000})
        for first in range(0, count, 100):
            produce(http, topic, *(f"{number}:{'x' * size}" for number in range(first, first + 100)))
        expected = [str(number) for number in range(count)]
        assert [value.partition(":")[0] for value in values(quick, count)] == expected
        connections = broker.node.connections._connections
        waiting = on_loop(broker, lambda: [sum(map(len, each._output.parts)) for each in connections])
        assert max(waiting) < 2_000_000
        assert quick.do("list_topics")
        assert [value.partition(":")[0] for value in values(slow, count)] == expected


def test_closed_subscriptions_leave_nothing_behind(broker: Broker, topic: str) -> None:
    services = services_of(broker)
    with WebSocketClient(broker) as client:
        client.do("subscribe", {"topic": topic})
        assert on_loop(broker, lambda: len(services.streams)) >= 1
    eventually(broker, lambda: not services.streams)
