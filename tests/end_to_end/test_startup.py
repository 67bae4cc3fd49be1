"""Modules that an idle broker has not loaded: each would cost every start milliseconds and memory."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient

# A package stands for all of its modules.
LATER = [
    "backports.zstd",
    "concurrent.futures.thread",
    "cramjam",
    "hashlib",
    "httptools",
    "lz4",
    "msgspec",
    "re2",
    "tomllib",
    "websockets",
    "headwater.broker.access.authentication",
    "headwater.broker.access.rules",
    "headwater.broker.access.tokens",
    "headwater.broker.access.users",
    "headwater.broker.audit.audit_log",
    "headwater.broker.groups.formats",
    "headwater.broker.groups.log",
    "headwater.broker.replicas",
    "headwater.broker.shares",
    "headwater.broker.transactions.log",
    "headwater.broker.writes.check_threads",
    "headwater.coordination.groups.assignors",
    "headwater.coordination.groups.machine",
    "headwater.coordination.groups.share",
    "headwater.coordination.patterns",
    "headwater.coordination.shares.machine",
    "headwater.coordination.transactions.machine",
    "headwater.listeners.kafka.apis.configs",
    "headwater.listeners.kafka.apis.replicas",
    "headwater.listeners.kafka.apis.security",
    "headwater.listeners.kafka.apis.shares",
    "headwater.listeners.kafka.sasl",
    "headwater.listeners.tcp.tls",
    "headwater.protocol.batches.directives",
    "headwater.protocol.stored",
    "headwater.security.authorizer",
    "headwater.security.scram",
    "headwater.storage.cleaning.compaction",
]


@pytest.fixture(scope="module")
def idle_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose log names every module that it loads. It has answered one client."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPROFILEIMPORTTIME", "1")
        with BrokerProcess(tmp_path_factory.mktemp("startup") / "data") as broker:
            with RawClient(broker) as client:
                client.ask(ApiVersionsRequest(), ApiVersionsResponse, 3)
            yield broker


@pytest.fixture(scope="module")
def loaded(idle_broker: BrokerProcess) -> set[str]:
    return set(re.findall(r"^import time:.*\| +(\S+)$", idle_broker.log, re.MULTILINE))


@pytest.mark.parametrize("module", LATER)
def test_an_idle_broker_has_not_loaded(module: str, loaded: set[str]) -> None:
    assert "headwater.node" in loaded
    assert not {each for each in loaded if f"{each}.".startswith(f"{module}.")}


def test_a_broker_without_http_loads_only_the_question_whether_it_is_asked_for(loaded: set[str]) -> None:
    ours = "headwater.listeners.http."
    assert {name for name in loaded if name.startswith(ours)} == {f"{ours}activation"}


def test_a_broker_without_tls_does_not_load_openssl(idle_broker: BrokerProcess) -> None:
    mapped = Path(f"/proc/{idle_broker.pid}/maps").read_text()
    assert "libcrypto" not in mapped
    assert "libssl" not in mapped
