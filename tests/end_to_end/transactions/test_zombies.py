"""A zombie: a copier that sleeps in the middle of a transaction, is replaced, and then goes on unaware."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.topic_contents import read, transactional_producer, wait_until_stable
from tests.support.transactions.copiers import GROUP_PROTOCOLS, SETTINGS, Copiers

pytestmark = pytest.mark.slow

RECORDS = 400


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("broker")
    with BrokerProcess(directory / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture
def source(broker: BrokerProcess) -> str:
    name = f"source-{uuid4().hex}"
    with RawClient(broker) as raw:
        raw.create(name)
        raw.create(f"target-of-{name}")
    producer = transactional_producer(broker, name)
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(name, b"original", key=b"%d" % number)
    producer.commit_transaction()
    return name


@pytest.mark.parametrize("is_timed_out", [True, False], ids=["timed-out", "in-time"])
@pytest.mark.parametrize("group_protocol", GROUP_PROTOCOLS)
def test_a_zombie_is_fenced_and_none_of_its_records_appear(
    broker: BrokerProcess, source: str, group_protocol: str, is_timed_out: bool
) -> None:
    target = f"target-of-{source}"
    with Copiers(broker, group_protocol, source, target) as copiers:
        timeout_ms = 1000 if is_timed_out else 60_000
        zombie = copiers.start(source, transaction_timeout_ms=timeout_ms, halts=True)
        copiers.wait_until(lambda: bool(copiers.steps("halfway")))
        zombie.fall_asleep()
        if is_timed_out:
            # Only the coordinator can end its transaction.
            wait_until_stable(broker, target)
        copier = copiers.start(source)
        copiers.copy_up_to({0: RECORDS})
        zombie.wake_up()
        zombie.go_on()
        copiers.wait_until(lambda: zombie.steps[-1].name == "ended")

        assert zombie.steps[-1].detail in {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
        assert not any(step.name == "committed" for step in zombie.steps)
        copies = read(broker, target, 1)[0]
        assert [copy.key for copy in copies] == [b"%d" % number for number in range(RECORDS)]
        assert all(copy.value.decode().startswith(copier.name) for copy in copies)
        hidden = {copy.value.decode() for copy in read(broker, target, 1, "read_uncommitted")[0]}
        assert any(name.startswith(zombie.name) for name in hidden), "it had written something"
        assert copiers.committed_offsets(1) == {0: RECORDS}
