"""Clients that mean harm: nonsense in bodies, headers and frames, requests that never end. The broker answers them, or
hangs up, and serves others as before."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.testing import Broker
from tests.support.broker.on_loop import eventually, on_loop
from tests.support.http.client import HttpClient, raw_connection
from tests.support.http.event_stream import EventStreamClient
from tests.support.http.inside import services_of
from tests.support.http.websocket import HANDSHAKE, WebSocketClient

QUICK = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
THOROUGH = settings(QUICK, max_examples=5_000)
HALF_BODY = (
    b"POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
)
COMPRESSED = HANDSHAKE[:-2] + b"sec-websocket-extensions: permessage-deflate\r\n\r\n"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(
    ["topic", "topics", "records", "value", "key", "partition", "offset", "group", "receipts", "credit", "subscription"]
)
params = st.dictionaries(names, json_values | st.just("t") | st.just(0), max_size=5)
commands = st.sampled_from(
    ["login", "list_topics", "metadata", "produce", "consume", "receive", "subscribe", "unsubscribe", "credit", "ack"]
)
paths = st.sampled_from(
    [
        "/v1/topics",
        "/v1/topics/t/records",
        "/v1/queues/g/receive",
        "/v1/queues/g/ack",
        "/v1/schedules/t/move",
        "/v1/transactions",
        "/v1/acls/delete",
    ]
)
header_text = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=60)
header_names = st.sampled_from(
    ["accept", "authorization", "origin", "if-match", "idempotency-key", "content-encoding", "last-event-id", "range"]
)
more_headers = st.dictionaries(header_names, header_text)
bodies = json_values | params | st.binary(max_size=500)
handshakes = st.sampled_from([HANDSHAKE, COMPRESSED])
opcodes = st.sampled_from([0, 1, 2, 3, 8, 9, 10, 15])
frames = st.tuples(st.booleans(), st.integers(0, 7), opcodes, st.booleans(), st.binary(max_size=200))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"num.partitions": "1", "headwater.http.wait.ms.max": "0", "headwater.http.body.bytes.max": "65536"}
    with Broker(settings, http=True) as broker:
        with HttpClient(broker) as http:
            http.post("/v1/topics", {"name": "t"})
        yield broker


def check_body(http: HttpClient, path: str, body: object, headers: dict[str, str]) -> None:
    answer = http.ask("POST", path, body, headers)
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"


def send_frames(broker: Broker, sent: list[tuple[bool, int, int, bool, bytes]], raw: bytes, handshake: bytes) -> None:
    with raw_connection(broker) as connection:
        connection.sendall(handshake)
        assert b" 101 " in connection.recv(4096)
        try:
            for is_final, reserved, opcode, is_masked, data in sent:
                first = is_final << 7 | reserved << 4 | opcode
                length = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2)
                head = bytes([first, length[0] | is_masked << 7]) + length[1:] + bytes(4 * is_masked)
                connection.sendall(head + data)
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass


def is_unharmed(broker: Broker) -> None:
    with HttpClient(broker) as http:
        assert http.get("/health/ready").status == 200
    measurements = broker.node.broker.measurements
    assert on_loop(broker, lambda: measurements.replies_failed.value) == 0


class TestNonsense:
    @QUICK
    @given(
        path=paths,
        body=json_values | params | st.binary(max_size=500),
        names=st.dictionaries(header_names, header_text),
    )
    def test_bodies_and_headers(self, broker: Broker, path: str, body: object, names: dict[str, str]) -> None:
        with HttpClient(broker) as http:
            check_body(http, path, body, {"content-type": "application/json", **names})

    @QUICK
    @given(
        sent=st.lists(frames, max_size=6),
        raw=st.binary(max_size=100),
        handshake=st.sampled_from([HANDSHAKE, COMPRESSED]),
    )
    def test_frames(
        self, broker: Broker, sent: list[tuple[bool, int, int, bool, bytes]], raw: bytes, handshake: bytes
    ) -> None:
        send_frames(broker, sent, raw, handshake)

    @QUICK
    @given(command=commands, given_params=params)
    def test_commands(self, broker: Broker, command: str, given_params: dict[str, object]) -> None:
        with WebSocketClient(broker) as client:
            answer = client.ask(command, given_params)
            assert answer["success"] or answer["error"]["status"] < 500, answer

    def test_nobody_is_harmed(self, broker: Broker) -> None:
        is_unharmed(broker)


@pytest.mark.slow
class TestMoreNonsense:
    @THOROUGH
    @given(
        path=paths,
        body=json_values | params | st.binary(max_size=500),
        names=st.dictionaries(header_names, header_text),
    )
    def test_bodies_and_headers(self, broker: Broker, path: str, body: object, names: dict[str, str]) -> None:
        with HttpClient(broker) as http:
            check_body(http, path, body, {"content-type": "application/json", **names})

    @THOROUGH
    @given(
        sent=st.lists(frames, max_size=6),
        raw=st.binary(max_size=100),
        handshake=st.sampled_from([HANDSHAKE, COMPRESSED]),
    )
    def test_frames(
        self, broker: Broker, sent: list[tuple[bool, int, int, bool, bytes]], raw: bytes, handshake: bytes
    ) -> None:
        send_frames(broker, sent, raw, handshake)

    def test_nobody_is_harmed(self, broker: Broker) -> None:
        is_unharmed(broker)


def test_half_requests_end() -> None:
    """Slow-loris: heads, bodies and frames that go on, a byte now and then, and never end."""
    with Broker({"headwater.request.read.timeout.ms": "1"}, http=True) as broker, ExitStack() as stack:
        sent = (
            b"GET / HT",
            b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ",
            HALF_BODY,
            HANDSHAKE + b"\x81\xfe\x01\x00\x00\x00\x00\x00half",
            HANDSHAKE + b"\x01\x81\x00\x00\x00\x00{",
        )
        connections = [stack.enter_context(raw_connection(broker)) for _ in sent]
        for connection, begun in zip(connections, sent, strict=True):
            connection.sendall(begun)
        eventually(broker, lambda: broker.node.connections.connection_count == 0)
        with HttpClient(broker) as http:
            assert http.get("/health/live").status == 200


@pytest.mark.slow
def test_idle_clients_cost_little() -> None:
    """2,000 WebSockets with a subscription, and 2,000 event streams."""
    count, kilobytes_max = 2_000, 40
    limits = {"max.connections": "20000", "max.connections.per.ip": "20000"}
    with Broker(limits, http=True) as broker, ExitStack() as stack, HttpClient(broker) as http:
        http.post("/v1/topics", {"name": "t", "partitions": 1})
        before = resident_kilobytes()
        for _ in range(count):
            client = stack.enter_context(raw_connection(broker))
            client.sendall(COMPRESSED)
            assert b" 101 " in client.recv(4096)
            message = b'{"command":"subscribe","params":{"topic":"t"}}'
            client.sendall(bytes([0x81, 0x80 | len(message)]) + bytes(4) + message)
            assert b'"success":true' in client.recv(4096)
        for _ in range(count):
            stack.enter_context(EventStreamClient(broker, "/v1/topics/t/stream"))
        eventually(broker, lambda: len(services_of(broker).streams) == 2 * count)
        grown = resident_kilobytes() - before
        # The clients are in this process, too.
        assert grown < 2 * count * kilobytes_max, f"{grown / (2 * count):.1f} KB for each client"
        assert http.post("/v1/topics/t/records", {"records": [{"value": "x"}]}).status == 200


def resident_kilobytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
