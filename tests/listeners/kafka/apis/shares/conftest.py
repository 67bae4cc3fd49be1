"""One broker for each test file; locks are as short as they may be."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import SETTINGS

SHARE_SETTINGS = {
    **SETTINGS,
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SHARE_SETTINGS) as broker:
        yield broker


@pytest.fixture
def topic_id(client: RawClient, name: str) -> UUID:
    """A new topic with one partition, and its id."""
    return client.create(name)
