from collections.abc import Iterator

import pytest

from headwater.client.cluster import Cluster
from headwater.testing import Broker
from tests.support.broker.settings import NO_HOUSEKEEPING


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for all tests of the client, which stay apart by topic names."""
    with Broker(NO_HOUSEKEEPING) as running:
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers, topic_wait_ms=0) as connected:
        yield connected
