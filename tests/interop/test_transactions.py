"""The Java client and Kafka Streams copy every record exactly once, although they and the broker are killed again and
again; and each of their transactions has an epoch of its own, as the second transaction protocol has it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headwater.protocol.batches import batch as batches
from tests.interop import toolchain
from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_transactions import fetched
from tests.support.kafka.topic_contents import last_stable_offset, read
from tests.support.transactions.copiers import GROUP_PROTOCOLS, SETTINGS, Copiers
from tests.support.transactions.kills import PARTITIONS, RECORDS, check_transactions, copy_amid_kills, create_topics

pytestmark = pytest.mark.interop

# Where in a transaction somebody is killed.
STEPS = ("begun", "halfway", "sent", "committed")
# A Kafka Streams application does not tell more.
STREAMS_STEPS = ("begun", "sent", "committed")
# As in StreamsCopier.java.
COUNTERS = 100
# A stream thread that was killed is not followed by one of its transactional id, so that its last transaction ends on
# time only, and others wait for it.
STREAMS_TRANSACTION_TIMEOUT_MS = 2000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        create_topics(broker, "source", "target")
        yield broker


@pytest.fixture(scope="session")
def streams_command(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    return toolchain.streams_copier(tmp_path_factory.mktemp("streams-classes"))


@pytest.mark.parametrize("group_protocol", GROUP_PROTOCOLS)
def test_java_copies_every_record_once_although_copiers_and_broker_are_killed(
    broker: BrokerProcess, java_command: Sequence[str], group_protocol: str
) -> None:
    with Copiers(broker, group_protocol, "source", "target", [*java_command, "copier"]) as copiers:
        check_transactions(copiers, copy_amid_kills(broker, copiers, STEPS))
        check_epochs(broker, "target")


def test_streams_copies_and_counts_every_record_once_although_copiers_and_broker_are_killed(
    broker: BrokerProcess, streams_command: Sequence[str], tmp_path: Path
) -> None:
    create_topics(broker, "counts")
    with Copiers(broker, "classic", "source", "target", [*streams_command, str(tmp_path / "state")]) as copiers:
        values = copy_amid_kills(broker, copiers, STREAMS_STEPS, transaction_timeout_ms=STREAMS_TRANSACTION_TIMEOUT_MS)
        assert Counter(values) == {"original": RECORDS}
        check_epochs(broker, "target")
        repartitioned = f"{copiers.group}-counted-repartition"
        ends = {partition: last_stable_offset(broker, repartitioned, partition) for partition in range(PARTITIONS)}
        copiers.copy_up_to(ends, repartitioned)
    counts: dict[bytes, list[int]] = defaultdict(list)
    for each in read(broker, "counts", PARTITIONS).values():
        for count in each:
            counts[count.key].append(int(count.value))
    assert counts == {b"%d" % key: list(range(1, RECORDS // COUNTERS + 1)) for key in range(COUNTERS)}


def check_epochs(broker: BrokerProcess, topic: str) -> None:
    """A marker has the epoch that follows its transaction's, and no transaction that of an earlier one."""
    open_epochs: dict[int, int] = {}
    ended: set[tuple[int, int]] = set()
    with RawClient(broker) as raw:
        for data in fetched(raw, topic):
            for header, _ in batches.iterate(data.records or b""):
                producer_id, epoch = header.producer_id, header.producer_epoch
                if not header.is_control:
                    assert (producer_id, epoch) not in ended
                    open_epochs[producer_id] = epoch
                elif producer_id in open_epochs:
                    assert epoch > open_epochs[producer_id]
                    ended.add((producer_id, open_epochs.pop(producer_id)))
    assert ended
