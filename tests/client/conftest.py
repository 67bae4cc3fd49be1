from collections.abc import Iterator

import pytest

from headwater.client.cluster import Cluster
from headwater.testing import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One for all tests of the client; they keep apart by their topics."""
    with Broker() as running:
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers, topic_wait_ms=0) as connected:
        yield connected
