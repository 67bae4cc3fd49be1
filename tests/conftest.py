"""For all tests: the Spark session that they share, and what is set for every process.

No property has a time limit, because how fast an example runs says nothing about what it shows; and
files are kept in memory where there is room, because no test asks what a real disk keeps: a crash is a recorded one, or
a process that is killed. Java starts quickly, because no test runs for long.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.spark.java import SPARK_ENVIRONMENT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Uses Spark, and yet belongs to `make test`.
SHORT_SPARK_PASS = Path(__file__).parent / "end_to_end" / "test_spark.py"

MEMORY = Path("/dev/shm")
# Far more than all tests hold at once; a container often has 64 MiB, which is not enough.
ROOM_BYTES = 4 << 30

settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")

# Whoever names a directory gets that one. Processes that tests start inherit it.
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# A shell has what runs in the background ignore interruptions, and every process that a test starts inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every Spark that a test starts, whichever process it is in. Whoever sets these gets his own.
for name, value in SPARK_ENVIRONMENT.items():
    os.environ.setdefault(name, value)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what uses the shared session `spark`, before pytest chooses by markers.

    With `--dist loadgroup` one worker runs all that is about Spark. Two Sparks at work would starve each other, for
    Spark waits ten seconds and no longer until a Python process that it started answers.
    """
    for item in items:
        if item.get_closest_marker("interop") is not None:
            # It has sessions, and groups, of its own.
            continue
        if "spark" in getattr(item, "fixturenames", ()) and item.path != SHORT_SPARK_PASS:
            item.add_marker(pytest.mark.spark)
        if item.path == SHORT_SPARK_PASS or item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator["SparkSession"]:
    """One for all tests in a process: starting Spark costs more than most of them.

    Tests keep apart by the names of their topics, queries and tables.
    """
    from headwater.spark.options import broker_address
    from tests.support.spark import sessions

    running = sessions.shared_session(tmp_path_factory.mktemp("spark"))
    yield running
    # What Spark's workers keep connected until they end, this process does not.
    for client in broker_address._connected.values():
        client.close()
    sessions.stop(running)
