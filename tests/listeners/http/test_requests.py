"""How requests are read and answered, whatever they ask for: the protocol, its limits, and hostile clients."""

import gzip
import re
import socket
from collections.abc import Iterator

import pytest

from headwater.clock import ManualClock
from headwater.testing import Broker
from tests.support.http.client import HttpClient, raw_connection, raw_exchange

HEAD = b"Host: localhost\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\n" + HEAD
CLOSE = b"Connection: close\r\n\r\n"
CORS = "https://page.example"


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", received)]


def test_a_connection_serves_one_request_after_the_other(http: HttpClient) -> None:
    assert http.get("/health/live").json == {"status": "live"}
    first = http.connection.sock
    answer = http.get("/health/ready")
    assert answer.json["status"] == "ready"
    assert {check["name"]: check["ok"] for check in answer.json["checks"]} == {
        "running": True,
        "partitions": True,
        "groups": True,
        "transactions": True,
    }
    assert http.connection.sock is first


def test_pipelined_requests_are_answered_in_their_order(broker: Broker) -> None:
    received = raw_exchange(broker, (LIVE + b"\r\n") * 20 + b"GET /nix HTTP/1.1\r\n" + HEAD + b"\r\n" + LIVE + CLOSE)
    assert statuses(received) == [200] * 20 + [404, 200]


def test_too_many_pipelined_requests_end_the_connection() -> None:
    with Broker({"headwater.connection.requests.max": "4"}, http=True) as broker:
        received = raw_exchange(broker, (LIVE + b"\r\n") * 20)
    assert statuses(received) == [200] * 4 + [429]


def test_a_request_byte_by_byte(broker: Broker) -> None:
    with raw_connection(broker) as connection:
        for byte in LIVE + CLOSE:
            connection.sendall(bytes([byte]))
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_http_1_0_ends_its_connection_unless_it_asks_otherwise(broker: Broker) -> None:
    assert statuses(raw_exchange(broker, b"GET /health/live HTTP/1.0\r\n\r\n")) == [200]
    kept = b"GET /health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    received = raw_exchange(broker, kept + b"GET /health/live HTTP/1.0\r\n\r\n")
    assert statuses(received) == [200, 200]
    assert received.count(b"connection: keep-alive") == 1


def test_a_client_that_closes_its_direction_gets_its_answer(broker: Broker) -> None:
    assert statuses(raw_exchange(broker, LIVE + b"\r\n", ends=True)) == [200]


def test_head_gives_the_head_alone(http: HttpClient) -> None:
    answer = http.ask("HEAD", "/health/live")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == "17"


def test_options_and_other_methods(http: HttpClient) -> None:
    answer = http.ask("OPTIONS", "/health/live")
    assert (answer.status, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    answer = http.post("/health/live")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    # Nothing overrides the method.
    for name in ("x-http-method-override", "x-http-method", "x-method-override"):
        assert http.ask("GET", "/health/live", headers={name: "DELETE"}).status == 200
        assert http.ask("POST", "/health/live?_method=GET", headers={name: "GET"}).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/health",
        "/health/",
        "/health/live/",
        "/health//live",
        "//health/live",
        "/health/live/extra",
        "/Health/live",
        "/health%2Flive",
        "/health/live;x=1",
        "/health/live%20",
    ],
)
def test_a_path_is_matched_exactly(http: HttpClient, path: str) -> None:
    answer = http.get(path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json == {
        "title": "Not Found",
        "status": 404,
        "detail": "there is nothing at this path",
        "code": "RESOURCE_NOT_FOUND",
    }


def test_an_encoded_path_is_the_path(http: HttpClient) -> None:
    assert http.get("/%68ealth/liv%65").status == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /health/../v1/status HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /health/%2e%2e/v1 HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /health/%00 HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /health/%zz HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /health/%ff HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /health/%+1 HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /health/% HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET http://localhost/health/live HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET health HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /health/live HTTP/1.1\r\n\r\n",
        LIVE + b"Host: other\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost:x\r\n\r\n",
        b"POST /health/live HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /health/live HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST /health/live HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n",
        b"POST /health/live HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /health/live HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        LIVE + b"Folded: a\r\n b\r\n\r\n" + b"\x00",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x10\x00\x12\x00\x00\x00\x00\x00\x01\x00\x03raw\x00",
        b"GET / HTTP/3.7\r\n\r\n",
        b"G\xc3\x84T / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n" * 40_000,
    ],
)
def test_a_malformed_request_is_refused_and_ends_its_connection(broker: Broker, request_bytes: bytes) -> None:
    received = raw_exchange(broker, request_bytes, ends=True)
    assert not set(statuses(received)) - {400, 431}
    assert b'"status":500' not in received
    with HttpClient(broker) as client:
        assert client.get("/health/live").status == 200


def test_a_large_head_is_refused_before_it_is_kept(broker: Broker) -> None:
    for head in (
        b"X-Long: " + b"x" * 200_000,
        b"X-Many: x\r\n" * 20_000,
        b"x" * 200_000,
    ):
        assert statuses(raw_exchange(broker, LIVE + head)) == [431]
    assert statuses(raw_exchange(broker, b"GET /" + b"x" * 200_000)) == [431]


def test_a_trailer_without_end_is_refused(broker: Broker) -> None:
    sent = (
        b"POST /health/live HTTP/1.1\r\n"
        + HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: "
        + b"x" * 200_000
    )
    assert set(statuses(raw_exchange(broker, sent))) <= {405, 431}


def test_what_a_body_takes_counts_as_memory_of_requests(broker: Broker) -> None:
    assert broker.node.connections.memory.used == 0
    with HttpClient(broker) as client:
        for _ in range(3):
            client.post("/health/live", b"x" * 300_000)
            assert client.get("/health/live").status == 200
    assert broker.node.connections.memory.used == 0


def test_an_unwanted_body_does_not_keep_the_answer_from_its_client(http: HttpClient) -> None:
    assert http.post("/health/live", b"x" * 5_000_000).status == 405


def test_a_client_that_waits_for_permission_is_refused_at_once(broker: Broker) -> None:
    with raw_connection(broker) as connection:
        connection.sendall(
            b"POST /health/live HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
        )
        assert connection.recv(12) == b"HTTP/1.1 405"


def test_slow_clients_are_disconnected(clock: ManualClock) -> None:
    with Broker(http=True, clock=clock) as broker, raw_connection(broker) as slow, raw_connection(broker) as silent:
        slow.sendall(LIVE)
        sweep_until_closed(broker, clock, slow, 40_000)
        sweep_until_closed(broker, clock, silent, 700_000)


def sweep_until_closed(broker: Broker, clock: ManualClock, connection: socket.socket, after_ms: int) -> None:
    connection.settimeout(0.01)
    for _ in range(500):
        try:
            assert connection.recv(1) == b""
        except TimeoutError:
            clock.advance(after_ms)
            broker.call(sweep(broker))
        else:
            return
    raise AssertionError("the connection is still open")


async def sweep(broker: Broker) -> None:
    broker.node.connections.sweep()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class TestHosts:
    def test_a_loopback_listener_answers_to_its_own_names(self, http: HttpClient) -> None:
        for host in ("localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:1"):
            assert http.get("/health/live", host=host).status == 200
        for host in ("evil.example", "localhost.evil.example", "127.0.0.2"):
            answer = http.get("/health/live", host=host)
            assert answer.status == 421
            assert "headwater.http.hosts" in answer.json["detail"]

    def test_named_hosts_alone(self) -> None:
        with Broker({"headwater.http.hosts": "broker.example"}, http=True) as broker, HttpClient(broker) as client:
            assert client.get("/health/live", host="Broker.Example:8080").status == 200
            assert client.get("/health/live").status == 421


@pytest.fixture(scope="module")
def open_to_a_page() -> Iterator[Broker]:
    with Broker({"headwater.http.cors.origins": CORS}, http=True) as broker:
        yield broker


class TestOrigins:
    def test_cors_is_off(self, http: HttpClient) -> None:
        answer = http.get("/health/live", origin=CORS)
        assert answer.status == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]
        answer = http.ask("OPTIONS", "/v1/status", headers={"origin": CORS, "access-control-request-method": "GET"})
        assert "access-control-allow-origin" not in answer.headers

    def test_a_page_of_another_origin_changes_nothing(self, http: HttpClient) -> None:
        assert http.post("/health/live", origin=CORS).status == 403
        assert http.post("/health/live", origin="null").status == 403
        own = http.broker.http_url
        assert http.post("/health/live", origin=own).status == 405

    def test_a_named_origin_may(self, open_to_a_page: Broker) -> None:
        with HttpClient(open_to_a_page) as client:
            answer = client.get("/health/live", origin=CORS)
            assert answer.headers["access-control-allow-origin"] == CORS
            assert client.post("/health/live", origin=CORS).status == 405
            assert "access-control-allow-origin" not in client.get("/health/live", origin=f"{CORS}.evil").headers
            asked = {"origin": CORS, "access-control-request-method": "GET"}
            answer = client.ask("OPTIONS", "/v1/status", headers=asked)
            assert (answer.status, answer.headers["access-control-allow-methods"]) == (204, "GET")


def test_long_answers_are_compressed_for_clients_that_take_it(http: HttpClient) -> None:
    plain, packed = http.get("/metrics"), http.get("/metrics", accept_encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) // 3
    assert gzip.decompress(packed.body).startswith(b"# HELP headwater_metrics_truncated")


def test_metrics_name_operations_and_statuses_and_nothing_that_clients_send(http: HttpClient) -> None:
    for _ in range(3):
        http.get("/health/live")
        http.get("/secret-path")
    text = http.get("/metrics").body.decode()
    assert "secret-path" not in text
    assert 'headwater_requests_total{api="GET /health/live"}' in text
    assert 'headwater_http_responses_total{status="404"}' in text


def test_the_status_page(http: HttpClient) -> None:
    status = http.get("/v1/status").json
    assert (status["node_id"], status["status"]) == (1, "ready")
    assert status["connections"] >= 1
