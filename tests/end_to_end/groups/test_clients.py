"""Client behaviour that test members depend on, and that not every client library has by itself."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.groups.clients import CLIENTS
from tests.support.groups.crew import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, SETTINGS
from tests.support.kafka.raw_client import RawClient


class Owner:
    def __init__(self) -> None:
        self.owned: set[int] = set()

    def assigned(self, partitions: Sequence[int]) -> None:
        self.owned.update(partitions)

    def revoked(self, partitions: Sequence[int]) -> None:
        self.owned.difference_update(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        self.owned.difference_update(partitions)


# kafka-python runs only in a process of its own, because its import warns.
@pytest.mark.parametrize("name", sorted(CLIENTS.keys() - {"kafka-python"}))
def test_a_client_closes_while_its_broker_is_gone(tmp_path: Path, name: str) -> None:
    owner = Owner()
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        with RawClient(broker) as raw:
            raw.create("topic")
        client = CLIENTS[name](
            {
                "client": name,
                "bootstrap_servers": broker.bootstrap_servers,
                "topic": "topic",
                "group": "group",
                "name": "member",
                "session_timeout_ms": SESSION_TIMEOUT_MS,
                "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            },
            owner,
        )
        while not owner.owned:
            client.poll()
        broker.kill()
        # Long enough to notice, and to wait before it fetches again.
        client.poll()
        client.close()
