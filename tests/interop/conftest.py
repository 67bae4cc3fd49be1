"""One broker process for the whole run, and the clients that talk to it. Tests keep apart by their topics."""

import itertools
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from tests.interop import kafka_server, toolchain
from tests.interop.clients.confluent import Confluent
from tests.interop.clients.kcat import Kcat
from tests.interop.clients.program import Program, ProgramClient
from tests.interop.dump_log import DumpLog
from tests.interop.exchange import AdminClient, Connect, RecordClient
from tests.interop.kafka_server import KafkaServer
from tests.interop.spark_connectors import Connectors
from tests.support.broker.processes import BrokerProcess

HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """With `--dist loadgroup` one worker runs all that is about Spark, which is the most, and begins with it; another
    takes the other files, each as a whole, for what they prepare. So does a folder."""
    for item in items:
        if HERE in item.path.parents:
            prepared = item.path.relative_to(HERE).parts[0].removesuffix(".py")
            item.add_marker(pytest.mark.xdist_group("spark" if "spark" in prepared else prepared))
    yield
    # After all who shuffle.
    items.sort(key=lambda item: "spark" not in item.path.stem)


@pytest.fixture(scope="session")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interop") / "data"


@pytest.fixture(scope="session")
def broker(data_directory: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data_directory) as broker:
        yield broker


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Apache Kafka's own server, for what our client and connector do there."""
    with kafka_server.running(toolchain.kafka_server(), tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture(scope="session")
def java_command(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    return toolchain.java_client(tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="session")
def go_command(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    return toolchain.go_client(tmp_path_factory.mktemp("go") / "interop")


@pytest.fixture(scope="session")
def java_program(java_command: Sequence[str]) -> Iterator[Program]:
    program = Program(java_command)
    yield program
    program.close()


@pytest.fixture(scope="session")
def go_program(go_command: Sequence[str]) -> Iterator[Program]:
    program = Program(go_command)
    yield program
    program.close()


@pytest.fixture(scope="session")
def dump_log() -> DumpLog:
    return DumpLog(toolchain.dump_log())


@pytest.fixture(scope="session")
def connectors(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connectors]:
    """Both in one Spark session."""
    with Connectors(broker.bootstrap_servers, toolchain.spark_connector(), tmp_path_factory.mktemp("spark")) as both:
        yield both


@pytest.fixture(scope="session")
def confluent(broker: BrokerProcess) -> Confluent:
    return Confluent(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def kcat(broker: BrokerProcess) -> Kcat:
    return Kcat(toolchain.kcat(), broker.bootstrap_servers)


@pytest.fixture(scope="session")
def java(broker: BrokerProcess, java_program: Program) -> ProgramClient:
    return ProgramClient(java_program, broker.bootstrap_servers)


@pytest.fixture(scope="session")
def franz(broker: BrokerProcess, go_program: Program) -> ProgramClient:
    return ProgramClient(go_program, broker.bootstrap_servers)


@pytest.fixture(scope="session")
def connect(request: pytest.FixtureRequest) -> Connect:
    """The client of that name, which is built or looked for when it is first asked for."""
    return request.getfixturevalue


@pytest.fixture
def client(request: pytest.FixtureRequest, connect: Connect) -> RecordClient:
    """The client that the test's parameter names."""
    return connect(request.param)


@pytest.fixture
def admin(request: pytest.FixtureRequest, connect: Connect) -> AdminClient:
    """The client that the test's parameter names, all of which administer."""
    return cast("AdminClient", connect(request.param))


@pytest.fixture(scope="session")
def new_topic() -> Callable[[str], str]:
    """Names that no other test uses, nor another process that runs tests."""
    numbers = itertools.count()
    return lambda purpose: f"{purpose}-{os.getpid()}-{next(numbers)}"


@pytest.fixture
def topic(new_topic: Callable[[str], str]) -> str:
    return new_topic("interop")
