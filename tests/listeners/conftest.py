"""One broker for each test file; tests keep apart by their topics."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from headwater.clock import ManualClock
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_transactions import Producer, init


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "2"}) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


@pytest.fixture
def name() -> str:
    """A topic that no other test has."""
    return f"topic-{uuid4().hex}"


@pytest.fixture
def topic(client: RawClient, name: str) -> str:
    """Such a topic, with one partition."""
    client.create(name)
    return name


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timed(clock: ManualClock) -> Iterator[Broker]:
    """A broker whose time stands still."""
    with Broker({"num.partitions": "1"}, clock=clock) as broker:
        yield broker


@pytest.fixture
def transactional_id() -> str:
    return f"transaction-{uuid4().hex}"


@pytest.fixture
def producer(client: RawClient, transactional_id: str) -> Producer:
    return init(client, transactional_id)
