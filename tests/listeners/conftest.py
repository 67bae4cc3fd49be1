"""One broker for each test file; each test uses topics of its own."""

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
    """A topic name that no other test uses."""
    return f"topic-{uuid4().hex}"


@pytest.fixture
def topic(client: RawClient, name: str) -> str:
    """A new topic with one partition."""
    client.create(name)
    return name


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timed(clock: ManualClock) -> Iterator[Broker]:
    """A broker on a manual clock."""
    with Broker({"num.partitions": "1"}, clock=clock) as broker:
        yield broker


@pytest.fixture
def transactional_id() -> str:
    return f"transaction-{uuid4().hex}"


@pytest.fixture
def producer(client: RawClient, transactional_id: str) -> Producer:
    return init(client, transactional_id)
