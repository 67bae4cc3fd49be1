"""Fetch and ListOffsets of read_committed clients, in every version that has isolation levels."""

from collections.abc import Callable

import pytest

from headwater.broker.partition import Partition
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import Marker
from headwater.protocol.messages.records.fetch import FetchResponse
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually, on_loop
from tests.support.kafka.raw_client import LATEST, NOW_MS, RawClient, batch_of, fetch_request

READ_COMMITTED = 1
MAX_TIMESTAMP = -3


def write(broker: Broker, partition: Partition, *, timestamp: int = NOW_MS) -> None:
    """Writes one transactional record directly to the partition, without a coordinator."""
    batch = memoryview(
        bytearray(
            batch_of(b"v", timestamp=timestamp, producer_id=7, producer_epoch=0, base_sequence=-1, transactional=True)
        )
    )
    _stage(
        broker,
        lambda append: partition.stage(batches.read_header(batch), batch, append, acks=ACKS_ALL, now_ms=NOW_MS),
    )


def end(broker: Broker, partition: Partition, *, committed: bool) -> None:
    _stage(broker, lambda append: partition.stage_marker(7, 0, Marker(committed, 0), append, NOW_MS))


def _stage(broker: Broker, stage: Callable[[Append], None]) -> None:
    settled: list[Append] = []
    on_loop(broker, lambda: stage(Append(settled.append)))
    eventually(broker, lambda: settled)
    assert settled[0].error is None


@pytest.fixture
def partition(broker: Broker, topic: str) -> Partition:
    return broker.node.broker.partition(topic, 0)


@pytest.mark.parametrize("version", [4, 5, 7, 11, 12])
def test_aborted_transactions_are_listed_in_every_version(
    broker: Broker, client: RawClient, topic: str, partition: Partition, version: int
) -> None:
    write(broker, partition)
    end(broker, partition, committed=False)
    write(broker, partition)

    data = client.fetch(topic, 0, version=version, isolation_level=READ_COMMITTED)
    assert (data.high_watermark, data.last_stable_offset) == (3, 2)
    assert data.aborted_transactions is not None
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == [(7, 0)]
    assert [header.base_offset for header, _ in batches.iterate(data.records or b"")] == [0, 1]

    data = client.fetch(topic, 0, version=version)
    assert (data.aborted_transactions, data.last_stable_offset) == (None, 2)
    assert [header.base_offset for header, _ in batches.iterate(data.records or b"")] == [0, 1, 2]


def test_without_aborted_transactions_a_read_committed_fetch_lists_none(
    broker: Broker, client: RawClient, topic: str, partition: Partition
) -> None:
    write(broker, partition)
    end(broker, partition, committed=True)
    assert client.fetch(topic, 0, isolation_level=READ_COMMITTED).aborted_transactions == []
    assert client.fetch(topic, 2, isolation_level=READ_COMMITTED).aborted_transactions == []
    assert client.fetch(topic, 99, isolation_level=READ_COMMITTED).last_stable_offset == -1


def test_a_read_committed_long_poll_waits_for_the_end_of_the_transaction(
    broker: Broker, client: RawClient, topic: str, partition: Partition
) -> None:
    request = fetch_request({topic: {0: 0}}, wait_ms=60_000, isolation_level=READ_COMMITTED)
    client.send(request, 12)
    write(broker, partition)
    on_loop(broker, lambda: None)
    end(broker, partition, committed=True)
    _, response = client.receive(FetchResponse, 12)
    data = response.responses[0].partitions[0]
    assert [header.base_offset for header, _ in batches.iterate(data.records or b"")] == [0, 1]


def test_read_committed_lookups_stay_below_the_last_stable_offset(
    broker: Broker, client: RawClient, topic: str, partition: Partition
) -> None:
    client.produce(topic, batch_of(b"v", timestamp=NOW_MS))
    write(broker, partition, timestamp=NOW_MS + 50)

    def found(timestamp: int, isolation_level: int) -> int:
        return client.look_up(topic, timestamp, isolation_level=isolation_level).offset

    for timestamp, committed, uncommitted in [
        (LATEST, 1, 2),
        (NOW_MS, 0, 0),
        (NOW_MS + 1, -1, 1),
        (MAX_TIMESTAMP, -1, 1),
    ]:
        assert found(timestamp, READ_COMMITTED) == committed
        assert found(timestamp, 0) == uncommitted
    end(broker, partition, committed=True)
    assert found(LATEST, READ_COMMITTED) == 3
    assert found(NOW_MS + 1, READ_COMMITTED) == 1
