"""One broker with a REST proxy and a schema registry for each test file; each test uses topics of its own."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from headwater.testing import Broker
from tests.support.http.client import HttpClient
from tests.support.http.rest_consumer import SETTINGS, RestConsumer

_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS, http=True) as broker:
        yield broker


@pytest.fixture
def http(broker: Broker) -> Iterator[HttpClient]:
    with HttpClient(broker) as client:
        yield client


@pytest.fixture
def new_topic(http: HttpClient) -> Callable[..., str]:
    def create(partitions: int = 1) -> str:
        name = f"topic-{next(_numbers)}"
        assert http.post("/v1/topics", {"name": name, "partitions": partitions}).status == 201
        return name

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()


@pytest.fixture
def consumer(broker: Broker) -> Iterator[Callable[..., RestConsumer]]:
    made: list[RestConsumer] = []

    def create(group: str, embedded: str = "json", **settings: Any) -> RestConsumer:
        made.append(RestConsumer(broker, group, embedded, **settings))
        return made[-1]

    yield create
    for each in made:
        each.delete()
