"""Brokers of other protocols: measured if Debian's packages are installed, otherwise reported as missing."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.broker_process import BrokerProcess
from benchmarks.cases import queues
from benchmarks.cases.peers import CLIENTS, PEERS
from benchmarks.cases.queues import QUEUES
from benchmarks.loads.streams import (
    BLOCK_RECORDS,
    WINDOW,
    MarkCounter,
    MarkedClient,
    consume_all,
    publish_blocks,
)
from benchmarks.peers.package import wait_until_listening
from benchmarks.plots import COLOURS
from benchmarks.ports import port_of, reserved_port
from benchmarks.suite import CASES, QUICK_CASES
from benchmarks.systems import (
    HEADWATER,
    KAFKA,
    KAFKA_TUNED,
    NATS,
    RABBITMQ,
    RABBITMQ_CLASSIC,
    RABBITMQ_QUORUM,
    REDIS,
    SYSTEMS,
    System,
)

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
OTHERS = [NATS, REDIS, RABBITMQ]
QUEUES_ONLY = [RABBITMQ_CLASSIC, RABBITMQ_QUORUM]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(TIMEOUT_S)
        theirs.settimeout(TIMEOUT_S)
        yield ours, theirs


def smoke(case: str, system: System, directory: Path) -> dict[str, float]:
    """Figures by name; none, and a word on why, where the system is not installed."""
    path = directory / "result.json"
    finished = run("--smoke", "--case", case, "--system", system.name, "--output", str(path))
    if system.missing():
        assert f"{system.name} is left out: {system.missing()}" in finished.stderr
        return {}
    assert finished.returncode == 0, finished.stderr
    result = json.loads(path.read_text())
    assert result["systems"][system.name]["version"]
    [saved] = result["cases"]
    figures = {figure["name"]: figure["median"] for figure in saved["figures"]}
    assert all(value > 0 for name, value in figures.items() if "CPU" not in name)
    return figures


@pytest.mark.parametrize("system", [HEADWATER, REDIS, *QUEUES_ONLY], ids=lambda system: system.name)
def test_queues_of_every_broker_are_measured_alike_or_reported_as_missing(system: System, tmp_path: Path) -> None:
    figures = smoke("queues", system, tmp_path)

    assert not figures or {"1 consumer", "2 consumers", "2 consumers: broker CPU", "1000/s p99"} <= figures.keys()


@pytest.mark.parametrize("system", [HEADWATER, *OTHERS], ids=lambda system: system.name)
def test_every_broker_is_measured_alike_or_reported_as_missing(system: System, tmp_path: Path) -> None:
    figures = smoke("peers", system, tmp_path)

    names = {"first ack", "idle", "append, 4 connections", "100 B: publish", "1 KiB: consume"}
    assert not figures or names <= figures.keys()


@pytest.mark.parametrize("system", OTHERS, ids=lambda system: system.name)
def test_a_missing_peer_is_reported_with_the_package_to_install(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert f"`apt-get install {system.name}-server` brings it" in system.missing()


def test_a_case_runs_on_the_systems_whose_protocol_it_knows() -> None:
    others = [*OTHERS, *QUEUES_ONLY]
    assert [system for system in SYSTEMS.values() if not PEERS.is_for(system)] == QUEUES_ONLY
    assert [system for system in others if QUEUES.is_for(system)] == [REDIS, *QUEUES_ONLY]
    for case in CASES:
        assert case in (PEERS, QUEUES) or not any(case.is_for(system) for system in others), case.name
    assert all(case not in QUICK_CASES for case in (PEERS, QUEUES)), "ten minutes are not enough"
    assert {KAFKA.protocol, KAFKA_TUNED.protocol} == {HEADWATER.protocol}
    assert CLIENTS.keys() | queues.CLIENTS.keys() == {system.protocol for system in SYSTEMS.values()}


def test_every_system_has_a_colour_of_its_own_in_plots() -> None:
    assert COLOURS.keys() == SYSTEMS.keys()
    assert len(set(COLOURS.values())) == len(SYSTEMS)


def test_a_kafka_case_for_a_non_kafka_peer_alone_is_refused() -> None:
    finished = run("--case", "sizes", "--system", REDIS.name)

    assert finished.returncode == 1
    assert "there is nothing to measure" in finished.stderr


@pytest.mark.parametrize(
    ("system", "cases"), [(NATS, "peers"), (REDIS, "peers, queues"), (RABBITMQ, "peers"), (RABBITMQ_CLASSIC, "queues")]
)
def test_the_list_says_which_cases_a_system_of_another_protocol_runs(system: System, cases: str) -> None:
    listed = run("--list").stdout.splitlines()

    [line] = [line for line in listed if line.startswith(f"  {system.name} ")]
    assert f"(only {cases})" in line


def test_a_server_that_ends_at_its_start_is_an_error_that_quotes_its_output(tmp_path: Path) -> None:
    with reserved_port() as reserved:
        broker = BrokerProcess(["sh", "-c", "echo no such setting; exit 1"], tmp_path, os.environ)

        with pytest.raises(RuntimeError, match="no such setting"):
            wait_until_listening(broker, f"127.0.0.1:{port_of(reserved)}")


def test_marks_are_counted_once_however_the_received_bytes_are_split(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    counter = MarkCounter(ours, b'"seq":', b"error")
    counted = 0

    for part in (b'{"seq":1}{"s', b'eq":2}{"seq"', b":", b'3}{"seq":4}'):
        theirs.sendall(part)
        counted += counter.receive()

    assert counted == 4


def test_a_mark_of_one_byte_is_counted_once(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    counter = MarkCounter(ours, b"$", b"ERR")

    theirs.sendall(b"$3\r\n1-0\r\n")
    assert counter.receive() == 1
    theirs.sendall(b"$3\r\n1-1\r\n")
    assert counter.receive() == 1


def test_a_refusal_and_a_lost_connection_are_errors_and_not_acknowledgements(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    counter = MarkCounter(ours, b"$", b"ERR")

    theirs.sendall(b"-ERR no room\r\n")
    with pytest.raises(RuntimeError, match="ERR no room"):
        counter.receive()
    theirs.close()
    with pytest.raises(ConnectionError):
        counter.receive()


def test_a_response_is_complete_after_the_expected_number_of_marks(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    client = MarkedClient(ours, b"XADD", b"\r\n", 2)

    for _ in range(2):
        client.send(0)
        theirs.sendall(b"$3\r\n")
        assert not client.receive()
        theirs.sendall(b"1-0\r\n")
        assert client.receive()
    theirs.close()
    with pytest.raises(ConnectionError):
        client.receive()


def test_a_publisher_has_no_more_in_flight_than_its_window(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    records = 3 * WINDOW * BLOCK_RECORDS
    sent = acknowledged = 0

    def acknowledge() -> int:
        nonlocal sent, acknowledged
        # Possibly nothing has arrived since the last call.
        with suppress(BlockingIOError):
            sent += len(theirs.recv(1024)) * BLOCK_RECORDS
        in_flight = sent - acknowledged
        assert 0 < in_flight <= WINDOW * BLOCK_RECORDS
        some = min(in_flight, BLOCK_RECORDS + 1)
        acknowledged += some
        return some

    theirs.setblocking(False)
    outcome = publish_blocks(lambda: None, ours, b"b", records, 100, acknowledge)

    assert (sent, outcome.records, outcome.bytes) == (records, records, records * 100)


def test_reading_more_records_than_were_acknowledged_is_an_error() -> None:
    asked: list[int] = []

    def receive(done: int) -> int:
        asked.append(done)
        return 4

    assert consume_all(lambda: None, 8, 100, receive).records == 8
    assert asked == [0, 4]
    with pytest.raises(RuntimeError, match="7 records were acknowledged, and 8 were read"):
        consume_all(lambda: None, 7, 100, receive)
