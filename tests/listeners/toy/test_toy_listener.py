"""A second listener needs one folder and one line in `node.py`, and touches no storage."""

import ast
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headwater import node as node_module
from headwater.testing import Broker
from tests.listeners.toy import listener as toy
from tests.support.kafka.raw_client import RawClient


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    # The one line in `node.py`.
    monkeypatch.setattr(node_module, "LISTENERS", (*node_module.LISTENERS, toy.toy_listeners))
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[socket.socket]:
    with socket.create_connection(broker.node.addresses["toy"], timeout=30) as client:
        yield client


def ask(client: socket.socket, *lines: str) -> list[str]:
    client.sendall("".join(f"{line}\n" for line in lines).encode())
    received = b""
    while received.count(b"\n") < len(lines):
        received += client.recv(4096)
    return received.decode().splitlines()


def test_two_protocols_share_the_topics(broker: Broker, client: socket.socket) -> None:
    with RawClient(broker) as kafka:
        kafka.create("t")
        assert ask(client, "PUT t one", "PUT t two") == ["0", "1"]
        assert ask(client, "GET t 0", "GET t 1", "GET t 2") == ["one", "two", "ERROR OFFSET_OUT_OF_RANGE"]
    assert ask(client, "GET nobody 0", "PUT nobody x") == ["ERROR UNKNOWN_TOPIC_OR_PARTITION"] * 2
    assert ask(client, "PUT __headwater_catalog x") == ["ERROR UNKNOWN_TOPIC_OR_PARTITION"]


def test_replies_keep_the_order_of_requests_although_one_waits_for_the_disk(
    broker: Broker, client: socket.socket
) -> None:
    with RawClient(broker) as kafka:
        kafka.create("t")
    assert ask(client, "PUT t one", "GET nobody 0", "PUT t two") == ["0", "ERROR UNKNOWN_TOPIC_OR_PARTITION", "1"]


@pytest.mark.parametrize("line", [b"HELLO\n", b"x" * 2 * toy.LINE_BYTES_MAX])
def test_a_malformed_line_closes_the_connection(client: socket.socket, line: bytes) -> None:
    client.sendall(line)
    # The kernel resets the connection if the broker left bytes unread.
    with suppress(ConnectionResetError):
        assert client.recv(1) == b""


def test_the_toy_listener_imports_no_storage() -> None:
    imported = [
        node.module
        for node in ast.walk(ast.parse(Path(toy.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    ]
    assert imported
    assert not [module for module in imported if module.startswith("headwater.storage")]
