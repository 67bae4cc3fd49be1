"""One server of Apache Kafka for all comparisons, which takes seconds to start, and a broker of ours beside it."""

from collections.abc import Iterator

import pytest

from tests.interop import toolchain
from tests.interop.differential import brokers
from tests.interop.differential.brokers import Peer


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with brokers.running_kafka(toolchain.kafka_server(), tmp_path_factory.mktemp("kafka")) as peer:
        yield peer


@pytest.fixture(scope="session")
def headwater(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with brokers.running_headwater(tmp_path_factory.mktemp("headwater")) as peer:
        yield peer
