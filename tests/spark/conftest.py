"""Tests here stay apart by the names of their topics (`topic`), queries and tables."""

from collections.abc import Generator
from uuid import uuid4

import pytest

from headwater.client.cluster import Cluster
from headwater.spark.options import broker_address
from headwater.testing import Broker


@pytest.fixture
def topic() -> str:
    """A topic name of the test's own."""
    return f"topic-{uuid4().hex[:12]}"


@pytest.fixture(scope="session", autouse=True)
def connected_clients() -> Generator[None]:
    """Close the shared clients, which Spark's workers keep connected until they end but this process must close."""
    yield
    for client in broker_address._clusters.values():
        client.close()


@pytest.fixture
def cluster(headwater_broker: Broker) -> Generator[Cluster]:
    """A client of the test's own, for requests beside Spark's."""
    with Cluster(headwater_broker.bootstrap_servers) as connected:
        yield connected
