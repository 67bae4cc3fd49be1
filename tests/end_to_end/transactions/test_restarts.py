"""Over restarts of the broker, aborted records stay hidden and open transactions stay open."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.topic_contents import (
    Isolation,
    high_watermark,
    last_stable_offset,
    read,
    transactional_producer,
)
from tests.support.transactions.copiers import SETTINGS

pytestmark = pytest.mark.slow

PARTITIONS = 2
TRANSACTIONS = 60
RECORDS = 20
# Small segments, so that aborted transactions lie in many of them, and some span two.
SEGMENT_BYTES = "4096"

ENDS: dict[str, Callable[[BrokerProcess], object]] = {"stop": BrokerProcess.stop, "kill": BrokerProcess.kill}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_aborted_records_stay_hidden_over_restarts(tmp_path: Path, end: Callable[[BrokerProcess], object]) -> None:
    def values(isolation: Isolation) -> list[bytes]:
        found = read(broker, "topic", PARTITIONS, isolation)
        return sorted(copy.value for copies in found.values() for copy in copies)

    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        with RawClient(broker) as raw:
            raw.create("topic", PARTITIONS, segment_bytes=SEGMENT_BYTES)
        producers = [transactional_producer(broker, f"producer-{number}") for number in range(2)]
        written: list[bytes] = []
        visible: list[bytes] = []

        def write(transaction: int) -> list[bytes]:
            """Write into this transaction; the other producer's is open too, so that their records are interleaved."""
            of_this = [b"%d" % transaction] * RECORDS
            for number, value in enumerate(of_this):
                producers[transaction % 2].produce("topic", value, key=b"key", partition=number % PARTITIONS)
            producers[transaction % 2].flush()
            written.extend(of_this)
            return of_this

        producers[0].begin_transaction()
        opened = write(0)
        for transaction in range(1, TRANSACTIONS):
            producers[transaction % 2].begin_transaction()
            next_one = write(transaction)
            before = producers[(transaction - 1) % 2]
            if transaction % 3 == 0:
                before.commit_transaction()
                visible += opened
            else:
                before.abort_transaction()
            opened = next_one
        # The last transaction is still open.
        for _ in range(2):
            end(broker)
            broker.start()
            assert values("read_committed") == sorted(visible)
            assert values("read_uncommitted") == sorted(written)
            assert last_stable_offset(broker, "topic") < high_watermark(broker, "topic")
        producers[(TRANSACTIONS - 1) % 2].commit_transaction()
        end(broker)
        broker.start()

        assert values("read_committed") == sorted(visible + opened)
        assert last_stable_offset(broker, "topic") == high_watermark(broker, "topic")
