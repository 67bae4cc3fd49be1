from collections.abc import Iterator

import pytest

from headwater.testing import Broker
from tests.cli.commands import Commands


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Not the one that others share: a new project has names of topics of its own."""
    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def commands(broker: Broker) -> Commands:
    return Commands(broker.bootstrap_servers)
