"""Compares a broker's data with its promises to clients, while the clients are paused."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.faults.kills.loads import (
    COUNTED,
    DEADLINE_S,
    KEYS,
    LEDGER_PARTITIONS,
    RECORDS_A_PARTITION,
    Loads,
    Transacting,
)
from tests.support.kafka.raw_client import EARLIEST, RawClient, Reachable
from tests.support.kafka.raw_groups import committed
from tests.support.kafka.topic_contents import read

_BATCH_BYTES_MAX = 1 << 20
_READ_COMMITTED = 1

T = TypeVar("T")


def check(broker: Reachable, loads: Loads) -> None:
    with RawClient(broker) as raw:
        _check_numbers(raw, loads.counting.count)
        _check_trimmed(raw, loads.counting.count, loads.administering.deleted_before)
        _check_compacted(raw, loads.counting.count)
        _check_offsets(raw, loads.committing.group, "numbers", loads.committing.committed)
        assert _brief_topics(raw) == set(loads.administering.topics)
        _check_transactions(broker, raw, loads.transacting)


def _check_numbers(raw: RawClient, count: int) -> None:
    for partition in range(COUNTED["numbers"]):
        found = _numbers(raw, "numbers", partition)
        assert found == list(range(partition, count, COUNTED["numbers"])), f"numbers-{partition} is not what was sent"


def _check_trimmed(raw: RawClient, count: int, deleted_before: int) -> None:
    while True:
        try:
            found = _numbers(raw, "trimmed")
        except _Overtaken:
            continue
        break
    assert found[0] >= deleted_before, "deleted records are back"
    assert found == list(range(found[0], count)), "trimmed-0 is not what was sent"


def _check_compacted(raw: RawClient, count: int) -> None:
    """Records may be missing, except the last one of each key. Remaining records keep their offsets."""
    records = [record for header, record in _records(raw, "compacted", 0, is_dense=False) if not header.is_control]
    assert [int(record.value or b"") for record in records] == [record.offset for record in records]
    found = {record.offset for record in records}
    assert found >= set(range(max(count - KEYS, 0), count)), "the last record of a key is lost"


class _Overtaken(Exception):
    """Retention removed records before the reader got to them."""


def _numbers(raw: RawClient, topic: str, partition: int = 0) -> list[int]:
    return [int(record.value or b"") for _, record in _records(raw, topic, partition)]


def _records(
    raw: RawClient, topic: str, partition: int, *, is_dense: bool = True
) -> Iterator[tuple[batches.BatchHeader, Record]]:
    """All records, each as it was written, in batches without a gap up to the end."""
    offset = raw.offset(topic, EARLIEST, partition=partition)
    end = raw.offset(topic, partition=partition)
    while offset < end:
        start = offset
        data = raw.fetch(topic, offset, partition=partition)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            assert raw.offset(topic, EARLIEST, partition=partition) > offset
            raise _Overtaken
        assert data.error_code == 0
        for header, batch in batches.iterate(data.records or b""):
            batches.verify(batch, header)
            assert not is_dense or header.base_offset <= offset, f"{topic}-{partition} has a hole at {offset}"
            for record in batches.read_records(batch, header, _BATCH_BYTES_MAX):
                if record.offset >= offset:
                    yield header, record
            offset = header.next_offset
        assert offset > start, f"{topic}-{partition} has nothing at {offset}"


def _check_offsets(raw: RawClient, group: str, topic: str, promised: Mapping[int, int]) -> None:
    for partition, offset in promised.items():
        told = _until(
            lambda partition=partition: committed(raw, group, topic, partition=partition, require_stable=True),
            lambda told: told.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
        assert told.error_code == 0
        assert told.committed_offset == offset, f"{group} is elsewhere in {topic}-{partition}"


def _brief_topics(raw: RawClient) -> set[str | None]:
    found = raw.ask(MetadataRequest(topics=None), MetadataResponse, 9).topics
    return {topic.name for topic in found if (topic.name or "").startswith("brief-")}


def _check_transactions(broker: Reachable, raw: RawClient, transacting: Transacting) -> None:
    """A producer hears of a commit before the markers are written, so this may have to wait for them."""
    visible = [number for number, is_committed in enumerate(transacting.outcomes) if is_committed]
    for partition in range(LEDGER_PARTITIONS):
        _until(
            lambda partition=partition: raw.fetch("ledger", 0, partition=partition, isolation_level=_READ_COMMITTED),
            lambda told: told.last_stable_offset == told.high_watermark,
        )
        # The log also has the records of aborted transactions, and all markers.
        assert all(_records(raw, "ledger", partition))
    for partition, copies in read(broker, "ledger", LEDGER_PARTITIONS).items():
        found = [int(copy.value) for copy in copies]
        due = [number for number in visible for _ in range(RECORDS_A_PARTITION)]
        differing = sorted((Counter(found) - Counter(due) + (Counter(due) - Counter(found))).items())
        assert found == due, f"ledger-{partition}: seen {len(found)} and due {len(due)}, differing in {differing}"
    _check_offsets(raw, transacting.group, "ledger", {0: visible[-1]} if visible else {})


def _until(ask: Callable[[], T], is_it: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + DEADLINE_S
    while not is_it(told := ask()):
        assert time.monotonic() < deadline, told
    return told
