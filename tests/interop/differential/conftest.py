"""One server of Apache Kafka for all comparisons, which takes seconds to start, and a broker of ours beside it."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.interop import toolchain
from tests.interop.differential import brokers
from tests.interop.differential.brokers import Peer
from tests.interop.differential.subjects import SUBJECTS

HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """In the order of the files and of the areas in them, whoever shuffles: listings see what other tests leave."""
    yield
    places = [place for place, item in enumerate(items) if HERE in item.path.parents]
    areas = {f"[{area}]": place for place, area in enumerate(SUBJECTS)}
    ordered = sorted(
        (items[place] for place in places),
        key=lambda item: (item.path.name, areas.get(item.name.removeprefix(item.name.partition("[")[0]), 0)),
    )
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with brokers.running_kafka(toolchain.kafka_server(), tmp_path_factory.mktemp("kafka")) as peer:
        yield peer


@pytest.fixture(scope="session")
def headwater(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with brokers.running_headwater(tmp_path_factory.mktemp("headwater")) as peer:
        yield peer
