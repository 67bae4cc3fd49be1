"""An acknowledged commit is still there after kill -9 and restart, round after round."""

import threading
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.groups.clients import CLIENTS, Options
from tests.support.groups.crew import DEADLINE_S, HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, SETTINGS
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import committed

pytestmark = pytest.mark.slow

KILLS = 4
ACKED_BETWEEN_KILLS = 20


class Committer:
    """Commits 1, 2, 3 and so on as the only member of its group, without pause, and remembers what was acknowledged."""

    def __init__(self, options: Options) -> None:
        self.acked = 0
        self._owned: set[int] = set()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._client = CLIENTS[options["client"]](options, self)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 1
        while not self._stop.is_set():
            self._client.poll()
            for _ in range(10):
                if not self._owned or self._client.commit({0: number}) is not None:
                    break
                with self._changed:
                    self.acked = number
                    self._changed.notify()
                number += 1
        self._client.close()

    def wait_for_more(self) -> None:
        with self._changed:
            goal = self.acked + ACKED_BETWEEN_KILLS
            assert self._changed.wait_for(lambda: self.acked >= goal, DEADLINE_S), "no more commits"

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()

    def assigned(self, partitions: Sequence[int]) -> None:
        self._owned.update(partitions)

    def revoked(self, partitions: Sequence[int]) -> None:
        self._owned.difference_update(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        self._owned.difference_update(partitions)


@pytest.mark.parametrize("flush", ["ack", "os"])
@pytest.mark.parametrize("client", ["confluent-range", "confluent-consumer", "aiokafka"])
def test_no_acknowledged_commit_is_lost_to_a_kill(tmp_path: Path, client: str, flush: str) -> None:
    """kill -9 ends the process but not the page cache, so no flush policy may lose a commit."""
    group = f"group-{uuid4().hex}"
    with BrokerProcess(tmp_path / "data", {**SETTINGS, "headwater.flush": flush}) as broker:
        with RawClient(broker) as raw:
            raw.create("topic")
        committer = Committer(
            {
                "client": client,
                "bootstrap_servers": broker.bootstrap_servers,
                "topic": "topic",
                "group": group,
                "name": "committer",
                "session_timeout_ms": SESSION_TIMEOUT_MS,
                "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            }
        )
        try:
            for _ in range(KILLS):
                committer.wait_for_more()
                broker.kill()
                acked = committer.acked
                broker.start()
                with RawClient(broker) as raw:
                    assert committed(raw, group, "topic").committed_offset >= acked
        finally:
            committer.finish()
