"""Tests here keep apart by the names of their topics (`topic`), queries and tables."""

from collections.abc import Generator
from uuid import uuid4

import pytest

from headwater.client.cluster import Cluster
from headwater.spark.options import broker_address
from headwater.testing import Broker


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
