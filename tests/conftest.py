"""Fixtures and environment of all tests: the shared Spark session, and settings of every process.

Hypothesis has no deadline, because the speed of an example says nothing about the property. Files are kept in memory
where there is room, because no test depends on a real disk: a crash is either recorded or a killed process. Java is
set up to start quickly, because no test runs for long.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from headwater.testing import Broker
from tests.support.broker.settings import NO_HOUSEKEEPING
from tests.support.spark.java import SPARK_ENVIRONMENT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Uses Spark, and still belongs to `make test`.
SHORT_SPARK_PASS = Path(__file__).parent / "end_to_end" / "test_spark.py"

MEMORY = Path("/dev/shm")
# Far more than all tests hold at once. A container often has only 64 MiB of shared memory, which is not enough.
ROOM_BYTES = 4 << 30

settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")

# A directory that the user names takes precedence. Processes that tests start inherit it.
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# A shell makes background jobs ignore SIGINT, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# For every Spark that a test starts, in any process. Values that the user has set take precedence.
for name, value in SPARK_ENVIRONMENT.items():
    os.environ.setdefault(name, value)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that use the shared session `spark`, before pytest selects by markers.

    With `--dist loadgroup` one worker runs all tests of Spark. Two busy Sparks would starve each other: Spark waits
    only ten seconds for an answer of a Python process that it started.
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
def headwater_broker() -> Iterator[Broker]:
    """The plugin's fixture, but no record is deleted for its age: one broker for all tests in a process."""
    with Broker(NO_HOUSEKEEPING) as broker:
        yield broker


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator["SparkSession"]:
    """One session for all tests in a process: starting Spark costs more than most of them.

    Tests stay apart by the names of their topics, queries and tables.
    """
    from headwater.spark.options import broker_address
    from tests.support.spark import sessions

    running = sessions.shared_session(tmp_path_factory.mktemp("spark"))
    yield running
    # Spark's workers keep clients connected until they end; this process must close its own.
    for client in broker_address._clusters.values():
        client.close()
    sessions.stop(running)
