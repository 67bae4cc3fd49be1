"""Who opens a WebSocket, how it proves that, and how a WebSocket ends."""

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from headwater.broker_security import BrokerSecurity
from headwater.listeners.http.websocket.conversation import WebSocketConversation
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually, on_loop
from tests.support.http.client import HttpClient, basic, raw_exchange
from tests.support.http.inside import services_of
from tests.support.http.websocket import HANDSHAKE, WebSocketClient


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_PLAINTEXT", users={"ann": "a", "ben": "b"}, authorizer=True)
    settings = {"connection.failed.authentication.delay.ms": "0", "connections.max.reauth.ms": "600000"}
    with Broker(settings, security=security, http=True) as broker:
        with HttpClient(broker, basic("ann", "a")) as ann:
            ann.post("/v1/topics", {"name": "t", "partitions": 1})
        yield broker


def closed(client: WebSocketClient) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as end:
        deque(iter(lambda: client.socket.recv(30), None))
    assert end.value.rcvd is not None
    return int(end.value.rcvd.code), end.value.rcvd.reason


class TestAuthentication:
    def test_at_the_handshake(self, secured: Broker) -> None:
        with WebSocketClient(secured, basic("ann", "a")) as client:
            assert "t" in client.do("list_topics")["topics"]
        with pytest.raises(InvalidStatus) as refused:
            WebSocketClient(secured, basic("ann", "wrong"))
        assert refused.value.response.status_code == 401

    def test_by_a_command(self, secured: Broker) -> None:
        with WebSocketClient(secured) as client:
            for command in ("list_topics", "produce", "subscribe", "credit", "nonsense"):
                assert client.ask(command)["error"]["status"] == 401
            told = client.do("login", {"username": "ann", "password": "a"})
            assert told["user"] == "User:ann"
            assert "t" in client.do("list_topics")["topics"]

    def test_the_next_command_waits_for_the_log_in(self, secured: Broker) -> None:
        with WebSocketClient(secured) as client:
            client.begin("login", {"username": "ann", "password": "a"})
            client.begin("list_topics")
            assert [client.answer()["success"] for _ in range(2)] == [True, True]

    @pytest.mark.parametrize(
        "params", [{"username": "ann", "password": "wrong"}, {"username": "ann"}, {}, {"token": "x"}, {"user": "ann"}]
    )
    def test_a_wrong_log_in_is_the_last(self, secured: Broker, params: object) -> None:
        with WebSocketClient(secured) as client:
            client.begin("login", params)
            with suppress(ConnectionClosed):
                client.begin("list_topics")
            answer = client.answer()
            assert (answer["success"], answer["error"]["status"]) in {(False, 401), (False, 400)}
            assert closed(client) == (1008, "authentication failed")

    def test_rights_are_those_of_the_wire(self, secured: Broker) -> None:
        with WebSocketClient(secured) as client:
            client.do("login", {"username": "ben", "password": "b"})
            for command, params in (
                ("produce", {"topic": "t", "value": "x"}),
                ("consume", {"topic": "t", "partition": 0}),
                ("subscribe", {"topic": "t"}),
                ("subscribe", {"topic": "t", "queue": "q"}),
                ("subscribe", {"topic": "t", "group": "g"}),
                ("receive", {"group": "q", "topics": ["t"]}),
                ("ack", {"group": "q", "receipts": ["x"]}),
                ("commit", {"group": "g", "offsets": [{"topic": "t", "partition": 0, "offset": 0}]}),
                ("metadata", {}),
                ("describe_topic", {"topic": "t"}),
            ):
                assert client.ask(command, params)["error"]["status"] in (403, 404), command
            assert client.do("list_topics")["topics"] == []

    def test_a_right_that_is_taken_away_ends_the_subscription(self, secured: Broker) -> None:
        rule = {"principal": "User:ben", "resource_type": "topic", "name": "t", "operation": "read"}
        with HttpClient(secured, basic("ann", "a")) as ann, WebSocketClient(secured, basic("ben", "b")) as ben:
            ann.post("/v1/acls", rule)
            ben.do("subscribe", {"topic": "t"})
            ann.post("/v1/acls/delete", rule)
            ann.post("/v1/topics/t/records", {"records": [{"value": "secret"}]})
            pushed = ben.push()
            assert (pushed["command"], pushed["data"]["error"]["status"]) == ("ended", 403)

    def test_another_user_cannot_take_over(self, secured: Broker) -> None:
        with WebSocketClient(secured, basic("ann", "a")) as client:
            client.begin("login", {"username": "ben", "password": "b"})
            assert client.answer()["error"]["status"] == 403
            assert closed(client)[0] == 1008

    def test_a_session_is_renewed_or_ends(self, secured: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = secured.node.broker.clock
        with WebSocketClient(secured, basic("ann", "a")) as kept, WebSocketClient(secured, basic("ann", "a")) as lost:
            later = clock.now_ms() + 400_000
            with monkeypatch.context() as patched:
                patched.setattr(type(clock), "now_ms", lambda self: later)
                kept.do("login", {"username": "ann", "password": "a"})
                patched.setattr(type(clock), "now_ms", lambda self: later + 300_000)
                assert closed(lost) == (1008, "the session is over: log in again before its end")
                assert kept.do("list_topics")

    def test_where_nobody_logs_in(self, broker: Broker) -> None:
        with WebSocketClient(broker) as client:
            refused = client.ask("login", {"username": "ann", "password": "a"})["error"]
            assert (refused["status"], "headwater.http.authentication" in refused["detail"]) == (400, True)
            assert client.do("list_topics")

    def test_a_stranger_has_little_time(self) -> None:
        security = BrokerSecurity("SASL_PLAINTEXT", users={"ann": "a"})
        settings = {
            "headwater.authentication.timeout.ms": "1",
            "headwater.connections.unauthenticated.max.per.ip": "1",
        }
        with Broker(settings, security=security, http=True) as broker:
            with WebSocketClient(broker) as client:
                assert closed(client)[0] == 1008
            with WebSocketClient(broker) as client:
                with pytest.raises(InvalidStatus) as refused:
                    WebSocketClient(broker)
                assert refused.value.response.status_code == 429
            eventually(broker, lambda: not services_of(broker).streams)


class TestHandshake:
    def test_pages_of_other_origins_do_not_get_in(self) -> None:
        with Broker({"headwater.http.cors.origins": "https://app.example"}, http=True) as broker:
            with WebSocketClient(broker, origin="https://app.example") as client:
                assert client.do("list_topics")
            for origin in ("https://evil.example", "null", "https://app.example.evil.example"):
                with pytest.raises(InvalidStatus) as refused:
                    WebSocketClient(broker, origin=origin)
                assert refused.value.response.status_code == 403

    def test_a_page_of_the_broker_itself(self, broker: Broker) -> None:
        with WebSocketClient(broker, origin=broker.http_url) as client:
            assert client.do("list_topics")

    def test_other_requests_are_refused(self, broker: Broker, http: HttpClient) -> None:
        answer = http.get("/v1/ws")
        assert (answer.status, answer.headers["upgrade"]) == (426, "websocket")
        head = b"GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        for rest in (
            b"",
            b"sec-websocket-version: 13\r\n",
            b"sec-websocket-version: 13\r\nsec-websocket-key: short\r\n",
            b"sec-websocket-version: 12\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        ):
            assert raw_exchange(broker, head + rest + b"\r\n").startswith((b"HTTP/1.1 400", b"HTTP/1.1 426")), rest

    @pytest.mark.parametrize(
        "sent",
        [
            HANDSHAKE.replace(b"GET", b"HEAD"),
            HANDSHAKE.replace(b"HTTP/1.1", b"HTTP/1.0"),
            HANDSHAKE[:-2] + b"content-length: 2\r\n\r\n{}",
            HANDSHAKE[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ],
    )
    def test_an_odd_handshake_is_refused(self, broker: Broker, sent: bytes) -> None:
        assert raw_exchange(broker, sent, ends=True).startswith(b"HTTP/1.1 400")

    def test_an_upgrade_elsewhere_changes_nothing(self, broker: Broker) -> None:
        answer = raw_exchange(broker, HANDSHAKE.replace(b"/v1/ws", b"/v1/topics"), ends=True)
        assert answer.startswith(b"HTTP/1.1 200")

    def test_sockets_are_counted_and_bounded(self) -> None:
        settings = {"headwater.http.streams.max": "1"}
        with Broker(settings, http=True) as broker, HttpClient(broker) as http, WebSocketClient(broker):
            with pytest.raises(InvalidStatus) as refused:
                WebSocketClient(broker)
            assert refused.value.response.status_code == 503
            assert "headwater_http_streams 1" in http.get("/metrics").body.decode()


class TestEnd:
    def test_the_broker_says_that_it_stops(self) -> None:
        with Broker(http=True) as broker:
            client = WebSocketClient(broker)
        assert closed(client) == (1001, "the broker stops")
        client.socket.close()

    def test_a_client_that_does_not_answer_pings_is_gone(self) -> None:
        settings = {"headwater.http.websocket.ping.interval.ms": "1000"}
        with Broker(settings, http=True) as broker, WebSocketClient(broker) as alive, deaf(broker) as silent:
            streams = services_of(broker).streams
            eventually(broker, lambda: len(streams) == 2)
            eventually(broker, lambda: len(streams) == 1)
            assert alive.do("list_topics")
            assert b"\x89\x00" in silent.recv(65536)

    def test_a_client_that_does_not_answer_a_close_is_gone(self) -> None:
        with Broker(http=True) as broker, deaf(broker) as silent:
            streams = services_of(broker).streams
            eventually(broker, lambda: streams)
            silent.sendall(b"\x82\x80\x00\x00\x00\x00")
            eventually(broker, lambda: not streams)


def deaf(broker: Broker) -> socket.socket:
    """A client that opens a WebSocket and never says a word of its own accord."""
    connection = socket.create_connection(broker.node.addresses["http"], timeout=30)
    connection.sendall(HANDSHAKE)
    assert b" 101 " in connection.recv(65536)
    return connection


def test_compression_is_agreed_on_and_bounded(broker: Broker) -> None:
    with WebSocketClient(broker) as client:
        assert [type(each).__name__ for each in client.socket.protocol.extensions] == ["PerMessageDeflate"]
        topic = "x" * 200
        client.socket.send('{"command":"describe_topic","params":{"topic":"' + topic * 10 + '"}}')
        assert client.answer()["error"]["status"] == 404
        # A megabyte of zeros is a kilobyte on the wire.
        client.socket.send(" " * (1 << 20) + "{}")
        assert closed(client)[0] == 1009


def test_a_message_that_is_too_large(broker: Broker) -> None:
    with WebSocketClient(broker, compression=None) as client:
        client.socket.send("x" * ((1 << 20) + 1))
        assert closed(client)[0] == 1009


def test_memory_of_half_messages_is_counted(broker: Broker) -> None:
    memory = broker.node.connections.memory
    before = on_loop(broker, lambda: memory.used)
    with deaf(broker) as client:
        client.sendall(b"\x81\xff" + (1 << 19).to_bytes(8) + bytes(4) + b"x" * 200_000)
        eventually(broker, lambda: memory.used - before >= 200_000)
    eventually(broker, lambda: memory.used == before)


def test_conversations_are_forgotten(broker: Broker) -> None:
    with WebSocketClient(broker) as client:
        client.do("list_topics")
    eventually(broker, lambda: not any(isinstance(each, WebSocketConversation) for each in services_of(broker).busy))
