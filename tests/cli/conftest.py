from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headwater.client.cluster import Cluster
from headwater.testing import Broker
from tests.support.broker.settings import NO_HOUSEKEEPING
from tests.support.cli.commands import Commands


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for all tests of commands, which stay apart by topic names."""
    with Broker(NO_HOUSEKEEPING) as running:
        yield running


@pytest.fixture
def commands(broker: Broker) -> Commands:
    return Commands(broker.bootstrap_servers)


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def name() -> str:
    return f"t-{uuid4().hex}"


@pytest.fixture
def broker_files(broker: Broker) -> Path:
    return broker.data_directory
