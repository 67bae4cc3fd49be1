"""Every row of a topic is in its copy exactly once, although tasks, the driver and the broker are killed on the way.

Here in few processes; on a cluster, with speculation and with more kills, in tests/interop.
"""

from pathlib import Path

import pytest

from tests.spark.killable import COMMIT_BEGUN, COMMIT_DENIED, COMMIT_DONE, COMMIT_SENT, TASK_BEGUN, TASK_STAGED
from tests.spark.killing import BROKER, DRIVER, TASK, Kill, copying, in_some_order

pytestmark = pytest.mark.xdist_group("own-spark")


def test_every_row_is_copied_once_whoever_is_killed(tmp_path: Path) -> None:
    kills = [
        Kill(TASK_BEGUN, TASK),
        Kill(TASK_STAGED, TASK),
        Kill(COMMIT_BEGUN, BROKER),
        Kill(COMMIT_SENT, BROKER),
        Kill(COMMIT_SENT, DRIVER),
        Kill(COMMIT_DONE, DRIVER),
    ]
    with copying(tmp_path, "local[2,4]") as scene:
        for kill in in_some_order(kills):
            scene.kill(kill)
        # Spark aborts a batch whose commit failed; this one is published.
        scene.plant(COMMIT_DENIED, 0)
        scene.check()
