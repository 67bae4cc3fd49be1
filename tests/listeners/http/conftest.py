"""One broker that serves HTTP for each test file; each test uses topics of its own."""

from collections.abc import Iterator

import pytest

from headwater.testing import Broker
from tests.support.http.client import HttpClient


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "2"}, http=True) as broker:
        yield broker


@pytest.fixture
def http(broker: Broker) -> Iterator[HttpClient]:
    with HttpClient(broker) as client:
        yield client
