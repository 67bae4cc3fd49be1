"""The commands of a WebSocket, answered as /v1 answers."""

import json
import threading
from uuid import uuid4

import pytest
from websockets.exceptions import ConnectionClosedError

from headwater.listeners.http.websocket.conversation import WebSocketConversation
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually
from tests.support.http.client import HttpClient, raw_connection
from tests.support.http.inside import services_of
from tests.support.http.websocket import HANDSHAKE, WebSocketClient


@pytest.fixture
def topic(http: HttpClient) -> str:
    name = f"ws-{uuid4().hex}"
    assert http.post("/v1/topics", {"name": name, "partitions": 1}).status == 201
    return name


def test_produced_and_consumed(broker: Broker, topic: str) -> None:
    with WebSocketClient(broker) as client:
        written = client.do("produce", {"topic": topic, "key": "k", "value": "a"})
        assert (written["partition"], written["offset"]) == (0, 0)
        many = client.do("produce", {"topic": topic, "records": [{"value": {"n": 1.50}}, {"value": None}]})
        assert [each["offset"] for each in many["records"]] == [1, 2]
        read = client.do("consume", {"topic": topic, "partition": 0, "offset": "1", "format": "json"})
        assert [each["value"] for each in read["records"]] == [{"n": 1.5}, None]
        assert read["next_offset"] == 3
        assert topic in client.do("list_topics", {"limit": 1000})["topics"]
        assert client.do("describe_topic", {"topic": topic})["partitions"][0]["high_watermark"] == 3
        assert client.do("metadata")["nodes"][0]["node_id"] == broker.node.broker.leadership.node_id


def test_numbers_keep_their_digits(broker: Broker, topic: str) -> None:
    with WebSocketClient(broker) as client:
        client.socket.send(
            f'{{"command":"produce","params":{{"topic":"{topic}","value":{{"n":1.10000000000000000001}}}}}}'
        )
        assert client.answer()["success"]
        client.begin("consume", {"topic": topic, "partition": 0, "format": "json"})
        assert '"value":{"n":1.10000000000000000001}' in str(client.socket.recv())


def test_a_repeated_command_is_done_once(broker: Broker, topic: str) -> None:
    with WebSocketClient(broker) as client, WebSocketClient(broker) as again:
        params = {"topic": topic, "value": "a"}
        first = client.do("produce", params, idempotency_key="k")
        assert again.do("produce", params, idempotency_key="k") == first
        other = again.ask("produce", {**params, "value": "b"}, idempotency_key="k")
        assert other["error"]["status"] == 422


def test_records_of_one_client_keep_their_order(broker: Broker, topic: str) -> None:
    """Commands run at once, and their records are still written in the order in which they came."""
    with WebSocketClient(broker) as client:
        for number in range(200):
            client.begin("produce", {"topic": topic, "value": str(number)})
        answers = [client.answer() for _ in range(200)]
        assert all(each["success"] for each in answers)
        read = client.do("consume", {"topic": topic, "partition": 0})["records"]
        assert [each["value"] for each in read] == [str(number) for number in range(200)]


def test_a_wait_holds_up_nobody(broker: Broker, topic: str) -> None:
    with WebSocketClient(broker) as client:
        waiting = client.begin("consume", {"topic": topic, "partition": 0, "offset": "latest", "wait_ms": 20_000})
        written = client.begin("produce", {"topic": topic, "value": "a"})
        first, second = client.answer(), client.answer()
        assert (first["id"], second["id"]) == (written, waiting)
        assert [each["value"] for each in second["data"]["records"]] == ["a"]


def test_queues(broker: Broker, topic: str) -> None:
    group = f"workers-{uuid4().hex}"
    with WebSocketClient(broker) as client:
        client.do("produce", {"topic": topic, "records": [{"value": "a"}, {"value": "b"}, {"value": "c"}]})
        wanted = {"group": group, "topics": [topic], "from": "earliest", "limit": 3}
        a, b, c = (each["receipt"] for each in client.do("receive", wanted)["records"])
        assert client.do("ack", {"group": group, "receipts": [a]}) == {"results": [{}]}
        assert client.do("extend", {"group": group, "receipts": [c]}) == {"results": [{}]}
        assert client.do("nack", {"group": group, "receipts": [b], "delay_ms": 0}) == {"results": [{}]}
        assert client.ask("ack", {"group": group, "receipts": [a]})["error"]["status"] == 409
        assert client.do("reject", {"group": group, "receipts": [c]}) == {"results": [{}]}
        assert [each["value"] for each in client.do("receive", wanted)["records"]] == ["b"]


def test_commits(broker: Broker, http: HttpClient, topic: str) -> None:
    group = f"readers-{uuid4().hex}"
    with WebSocketClient(broker) as client:
        client.do("produce", {"topic": topic, "records": [{"value": "a"}, {"value": "b"}]})
        offsets = [{"topic": topic, "partition": 0, "offset": 1}]
        client.do("commit", {"group": group, "offsets": offsets})
        assert http.get(f"/v1/groups/{group}/offsets").json["offsets"][0]["lag"] == 1
        client.do("subscribe", {"topic": topic, "group": group})
        assert [each["value"] for each in client.messages(1)] == ["b"]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("", 400),
        ("{", 400),
        ("[]", 400),
        ("null", 400),
        ('{"id": 1}', 400),
        ('{"id": [], "command": "x"}', 400),
        ('{"id": 1, "command": "x", "surprise": 1}', 400),
        ('{"id": 1, "command": "x"}', 404),
        ('{"id": 1, "command": "produce", "params": []}', 400),
        ('{"id": 1, "command": "produce", "params": {"value": "x"}}', 400),
        ('{"id": 1, "command": "produce", "params": {"topic": 5, "value": "x"}}', 400),
        ('{"id": 1, "command": "produce", "params": {"topic": "none", "value": "x"}}', 404),
        ('{"id": 1, "command": "produce", "params": {"topic": "none", "value": "x", "more": 1}}', 400),
        ('{"id": 1, "command": "consume", "params": {"topic": "none", "partition": -1}}', 400),
        ('{"id": 1, "command": "metadata", "params": {"x": 1}}', 400),
        ('{"id": 1, "command": "subscribe", "params": {"topic": "none"}}', 404),
        ('{"id": 1, "command": "subscribe", "params": {"topic": "none", "credit": -1}}', 400),
        ('{"id": 1, "command": "unsubscribe", "params": {"subscription": "none"}}', 404),
        ('{"id": 1, "command": "credit", "params": {"subscription": "none", "records": 1}}', 404),
        ("[" * 100_000, 400),
        ('{"command":"x","params":' + '{"a":' * 100_000, 400),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_session_goes_on(broker: Broker, message: str, status: int) -> None:
    with WebSocketClient(broker) as client:
        client.socket.send(message)
        answer = client.answer()
        assert (answer["success"], answer["error"]["status"]) == (False, status), answer
        assert client.do("list_topics")


def test_many_clients_at_once(broker: Broker, topic: str) -> None:
    def produce(number: int) -> None:
        with WebSocketClient(broker) as client:
            for each in range(20):
                client.do("produce", {"topic": topic, "value": f"{number}-{each}"})

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with WebSocketClient(broker) as client:
        assert client.do("describe_topic", {"topic": topic})["partitions"][0]["high_watermark"] == 160


def test_bytes_are_no_commands(broker: Broker) -> None:
    with WebSocketClient(broker) as client:
        client.socket.send(b"{}")
        with pytest.raises(ConnectionClosedError) as closed:
            client.socket.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1003, "commands are text messages")


def test_a_command_before_the_end_is_done(broker: Broker, http: HttpClient, topic: str) -> None:
    """A page that is closed says so right behind its last command."""
    with raw_connection(broker) as connection:
        connection.sendall(HANDSHAKE)
        assert b" 101 " in connection.recv(4096)
        command = f'{{"command":"produce","params":{{"topic":"{topic}","value":"last"}}}}'.encode()
        frame = b"\x81\xfe" + len(command).to_bytes(2) + bytes(4) + command
        connection.sendall(frame + b"\x88\x82\x00\x00\x00\x00\x03\xe8")
        path = f"/v1/topics/{topic}/partitions/0/records?wait_ms=20000"
        assert [each["value"] for each in http.get(path).json["records"]] == ["last"]


@pytest.mark.parametrize("goodbye", [b"", b"\x88\x82\x00\x00\x00\x00\x03\xe8"])
def test_a_command_that_waits_ends_with_its_connection(broker: Broker, topic: str, goodbye: bytes) -> None:
    group = f"workers-{uuid4().hex}"
    wanted = {"group": group, "topics": [topic], "from": "earliest"}
    streams = services_of(broker).streams
    with WebSocketClient(broker) as second:
        assert second.do("receive", wanted)["records"] == []
        with raw_connection(broker) as connection:
            connection.sendall(HANDSHAKE)
            assert b" 101 " in connection.recv(4096)
            params = json.dumps({**wanted, "wait_ms": 30_000})
            command = f'{{"command":"receive","params":{params}}}'.encode()
            connection.sendall(b"\x81\xfe" + len(command).to_bytes(2) + bytes(4) + command)
            conversations = broker.node.connections._connections
            eventually(broker, lambda: any(running_waits(each._conversation) for each in conversations))
            connection.sendall(goodbye)
        eventually(broker, lambda: len(streams) == 1)
        second.do("produce", {"topic": topic, "value": "a"})
        (record,) = second.do("receive", {**wanted, "wait_ms": 20_000})["records"]
        assert record["delivery_count"] == 1


def running_waits(conversation: object) -> bool:
    return isinstance(conversation, WebSocketConversation) and any(conversation._running.values())
