"""Twenty kills on a cluster with speculation: every row of a topic is in its copy exactly once."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.spark_cluster import Cluster
from tests.interop.spark_killable import COMMIT_DENIED, PLACES, TASK_BEGUN, TASK_SLOW, TASK_STAGED
from tests.interop.spark_killing import BROKER, DRIVER, TASK, Kill, copying, in_some_order

pytestmark = pytest.mark.interop

# Spark speculates on another host only, and the loopback interface has many addresses.
HOSTS = ("127.0.0.1", "127.0.0.2")


@contextmanager
def two_hosts(directory: Path) -> Generator[str]:
    directory.mkdir()
    with Cluster(directory, workers=0) as cluster:
        for host in HOSTS:
            place = str(directory / host)
            cluster._start(
                "worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--work-dir", place, cluster.url
            )
        yield cluster.url


def test_every_row_is_copied_once_with_speculation_and_twenty_kills(tmp_path: Path) -> None:
    kills = [
        *[Kill(place, TASK) for place in (TASK_BEGUN, TASK_STAGED) for _ in range(5)],
        *[Kill(place, BROKER) for place in PLACES],
        *[Kill(place, DRIVER) for place in PLACES],
    ]
    assert len(kills) == 20
    with two_hosts(tmp_path / "cluster") as master, copying(tmp_path, master) as scene:
        for kill in in_some_order(kills):
            scene.kill(kill)
        # Spark aborts a batch whose commit failed; this one is published.
        scene.plant(COMMIT_DENIED, 0)
        # Both attempts finish: one waits for the other.
        scene.plant(TASK_SLOW, 0)
        scene.check()
        assert scene.program.attempts() > 1, "no task was speculated"
