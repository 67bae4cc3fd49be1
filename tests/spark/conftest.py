"""One Spark session and one broker for all tests here, in one process: starting Spark costs more than most tests.

Tests keep apart by the names of their topics (`topic`), queries and tables. Those that start a Spark of their own, here
and elsewhere, are the group `own-spark`, which one worker runs, or of the group `spark`: so there are never more than
two at work. More would starve each other, for Spark waits ten seconds and no longer until a Python process that it
started answers.
"""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headwater.client.cluster import Cluster
from headwater.spark import session
from headwater.spark.options import broker_address
from headwater.testing import Broker
from tests.support.spark.sessions import stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`, whatever uses the session goes to the one worker that has it."""
    for item in items:
        if HERE in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator["SparkSession"]:
    directory = tmp_path_factory.mktemp("spark")
    running = session("headwater-tests", config={"spark.local.dir": str(directory)})
    yield running
    stop(running)


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"topic-{uuid4().hex[:12]}"


@pytest.fixture(scope="session", autouse=True)
def connected_clients() -> Generator[None]:
    """What Spark's workers keep connected until they end, this process does not."""
    yield
    for client in broker_address._clusters.values():
        client.close()


@pytest.fixture
def cluster(headwater_broker: Broker) -> Generator[Cluster]:
    """A client of the test's own, for what happens beside Spark."""
    with Cluster(headwater_broker.bootstrap_servers) as connected:
        yield connected
