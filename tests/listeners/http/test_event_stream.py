"""Server-sent events: /v1/topics/{topic}/stream."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from headwater.broker_security import BrokerSecurity
from headwater.listeners.http.v1 import event_stream
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually, on_loop
from tests.support.http.client import HttpClient, basic
from tests.support.http.event_stream import EventStreamClient
from tests.support.http.inside import services_of


@pytest.fixture
def topic(http: HttpClient) -> str:
    name = f"live-{uuid4().hex}"
    assert http.post("/v1/topics", {"name": name, "partitions": 2}).status == 201
    return name


def produce(http: HttpClient, topic: str, *records: object) -> None:
    shown = [record if isinstance(record, dict) else {"value": record, "partition": 0} for record in records]
    assert http.post(f"/v1/topics/{topic}/records", {"records": shown}).status == 200


def values(client: EventStreamClient, count: int) -> list[str]:
    return [each.data["value"] for each in client.take(count)]


class TestStreams:
    def test_records_come_as_they_are_written(self, http: HttpClient, broker: Broker, topic: str) -> None:
        produce(http, topic, "before")
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream") as client:
            assert (client.status, client.headers["content-type"]) == (200, "text/event-stream")
            produce(http, topic, "a", {"key": "k", "value": "b", "partition": 1})
            first, second = client.take(2)
            found = {each.data["partition"]: each.data["value"] for each in (first, second)}
            assert found == {0: "a", 1: "b"}
            assert second.id == "0:2,1:1"
            assert first.kind == "message"

    def test_resumed_where_it_was(self, http: HttpClient, broker: Broker, topic: str) -> None:
        produce(http, topic, "a", "b", {"value": "c", "partition": 1})
        path = f"/v1/topics/{topic}/stream"
        with EventStreamClient(broker, f"{path}?offset=earliest") as client:
            first = client.take(1)[0]
        seen = [first.data["value"]]
        with EventStreamClient(broker, path, {"last-event-id": first.id}) as client:
            seen += values(client, 2)
            produce(http, topic, "d")
            seen += values(client, 1)
            last = client.last_id
        assert sorted(seen) == ["a", "b", "c", "d"]
        produce(http, topic, "e")
        with EventStreamClient(broker, f"{path}?after={last}") as client:
            assert values(client, 1) == ["e"]

    def test_positions_are_told_before_the_first_record(self, http: HttpClient, broker: Broker, topic: str) -> None:
        """A client that is interrupted before it got anything misses nothing."""
        path = f"/v1/topics/{topic}/stream"
        with EventStreamClient(broker, path) as client:
            assert client.file.readline() == b"retry: 2000\n"
            told = client.file.readline().decode().partition(": ")[2].strip()
        produce(http, topic, "meanwhile")
        with EventStreamClient(broker, path, {"last-event-id": told}) as client:
            assert values(client, 1) == ["meanwhile"]

    def test_chosen_partitions(self, http: HttpClient, broker: Broker, topic: str) -> None:
        produce(http, topic, "0", {"value": "1", "partition": 1})
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream?partition=1&offset=earliest") as client:
            (event,) = client.take(1)
            assert (event.data["value"], event.id) == ("1", "1:1")

    def test_partitions_that_come_later(self, http: HttpClient, broker: Broker, topic: str) -> None:
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream") as client:
            assert http.ask("PATCH", f"/v1/topics/{topic}/partitions", {"partitions": 3}).status == 200
            produce(http, topic, {"value": "new", "partition": 2}, "wake")
            assert {each.data["value"] for each in client.take(2)} == {"new", "wake"}

    def test_values_of_several_lines(self, http: HttpClient, broker: Broker, topic: str) -> None:
        """JSON is shown as it was written, and a line of it must not end the event, or be taken for a field."""
        body = b'{"records": [{"partition": 0, "value": {"a":\r\n\rid: 7\n\n}}]}'.replace(b"id: 7", b'"id: 7"')
        headers = {"content-type": "application/json"}
        assert http.ask("POST", f"/v1/topics/{topic}/records", body, headers).status == 200
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream?offset=earliest&format=json") as client:
            (event,) = client.take(1)
            assert event.data["value"] == {"a": "id: 7"}
            assert event.id == "0:1,1:0"

    def test_records_that_were_deleted(self, http: HttpClient, broker: Broker, topic: str) -> None:
        produce(http, topic, "a", "b", "c")
        assert http.post(f"/v1/topics/{topic}/partitions/0/truncate", {"offset": 2}).status == 200
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream?after=0:0,1:0") as client:
            missing, record = client.take(2)
            assert (missing.kind, missing.data) == ("missing", {"partition": 0, "from": 0, "to": 2})
            assert record.data["value"] == "c"

    def test_the_end_of_a_topic_is_the_end_of_its_stream(self, http: HttpClient, broker: Broker, topic: str) -> None:
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream") as client:
            assert http.ask("DELETE", f"/v1/topics/{topic}").status == 204
            (event,) = list(client.events())
            assert (event.kind, event.data["status"]) == ("error", 404)

    def test_silence_is_filled(
        self, monkeypatch: pytest.MonkeyPatch, http: HttpClient, broker: Broker, topic: str
    ) -> None:
        monkeypatch.setattr(event_stream, "KEEP_ALIVE_MS", 1)
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream") as client:
            assert b":\n" in [client.file.readline() for _ in range(10)]

    @pytest.mark.parametrize(
        "query",
        ["offset=middle", "after=x", "after=0:1,0:2", "after=" + "0:1," * 2000, "partition=x", "format=xml", "x=y"],
    )
    def test_a_wrong_query_is_refused(self, broker: Broker, topic: str, query: str) -> None:
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream?{query}") as client:
            assert client.status == 400

    def test_what_is_not_there(self, broker: Broker, topic: str) -> None:
        for path in (f"/v1/topics/{topic}/stream?partition=7", "/v1/topics/nothing/stream"):
            with EventStreamClient(broker, path) as client:
                assert client.status == 404

    def test_pages_of_other_origins(self, broker: Broker, topic: str) -> None:
        path = f"/v1/topics/{topic}/stream"
        with EventStreamClient(broker, path, {"origin": "https://evil.example"}) as client:
            assert client.status == 403
        with EventStreamClient(broker, path, {"origin": "http://127.0.0.1"}) as client:
            assert client.status == 200

    def test_a_client_that_leaves_is_forgotten(self, http: HttpClient, broker: Broker, topic: str) -> None:
        streams = services_of(broker).streams
        eventually(broker, lambda: not streams)
        with EventStreamClient(broker, f"/v1/topics/{topic}/stream"):
            eventually(broker, lambda: len(streams) == 1)
        eventually(broker, lambda: not streams)

    def test_a_head_has_no_events(self, http: HttpClient, topic: str) -> None:
        answer = http.ask("HEAD", f"/v1/topics/{topic}/stream?offset=earliest")
        assert (answer.status, answer.body) == (200, b"")


def test_a_slow_reader_holds_up_itself_alone(http: HttpClient, broker: Broker, topic: str) -> None:
    path = f"/v1/topics/{topic}/stream?offset=earliest"
    count, size = 400, 50_000
    with EventStreamClient(broker, path, receive_buffer_bytes=4096) as slow, EventStreamClient(broker, path) as quick:
        for first in range(0, count, 100):
            produce(http, topic, *(f"{number}:{'x' * size}" for number in range(first, first + 100)))
        assert [value.partition(":")[0] for value in values(quick, count)] == [str(each) for each in range(count)]
        connections = broker.node.connections._connections
        waiting = on_loop(broker, lambda: [sum(map(len, each._output.parts)) for each in connections])
        # What one read gave, not what was written since.
        assert 0 < max(waiting) < 2_000_000
        assert [value.partition(":")[0] for value in values(slow, count)] == [str(each) for each in range(count)]


def test_streams_are_counted_and_bounded() -> None:
    with Broker({"headwater.http.streams.max": "1"}, http=True) as broker, HttpClient(broker) as http:
        http.post("/v1/topics", {"name": "t", "partitions": 1})
        with EventStreamClient(broker, "/v1/topics/t/stream") as first:
            assert first.status == 200
            eventually(broker, lambda: services_of(broker).streams)
            with EventStreamClient(broker, "/v1/topics/t/stream") as second:
                assert second.status == 503
            assert "headwater_http_streams 1" in http.get("/metrics").body.decode()


def test_a_stream_ends_with_the_broker() -> None:
    with Broker(http=True) as broker, HttpClient(broker) as http:
        http.post("/v1/topics", {"name": "t", "partitions": 1})
        client = EventStreamClient(broker, "/v1/topics/t/stream")
        eventually(broker, lambda: services_of(broker).streams)
    assert list(client.events()) == []
    client.close()


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_PLAINTEXT", users={"ann": "a", "ben": "b"}, authorizer=True)
    with Broker({"connections.max.reauth.ms": "600000"}, security=security, http=True) as broker:
        with HttpClient(broker, basic("ann", "a")) as ann:
            ann.post("/v1/topics", {"name": "t", "partitions": 1})
        yield broker


def test_a_right_that_is_taken_away_ends_the_stream(secured: Broker) -> None:
    rule = {"principal": "User:ben", "resource_type": "topic", "name": "t", "operation": "read"}
    with HttpClient(secured, basic("ann", "a")) as ann:
        assert ann.post("/v1/acls", rule).status in (200, 201)
        with EventStreamClient(secured, "/v1/topics/t/stream", basic("ben", "b")) as client:
            assert client.status == 200
            assert ann.post("/v1/acls/delete", rule).status == 200
            ann.post("/v1/topics/t/records", {"records": [{"value": "secret"}]})
            (event,) = list(client.events())
            assert (event.kind, event.data["status"]) == ("error", 403)


def test_a_session_that_ends_ends_the_stream(secured: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_MS", 1)
    with EventStreamClient(secured, "/v1/topics/t/stream", basic("ann", "a")) as client:
        eventually(secured, lambda: services_of(secured).streams)
        clock = secured.node.broker.clock
        later = clock.now_ms() + 600_001
        monkeypatch.setattr(type(clock), "now_ms", lambda self: later)
        (event,) = list(client.events())
        assert (event.kind, event.data["code"]) == ("error", "SASL_AUTHENTICATION_FAILED")
