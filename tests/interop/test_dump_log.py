"""Kafka's own kafka-dump-log finds nothing wrong with the files that the broker leaves."""

import time
from collections.abc import Container
from pathlib import Path

import pytest

from headwater.protocol.batches.batch import iterate
from tests.interop.clients.confluent import Confluent
from tests.interop.dump_log import DumpLog, fields
from tests.interop.exchange import COMPRESSIONS, FromOffset, Record
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.interop

SETTINGS = {
    "log.segment.bytes": "10000",
    "log.index.interval.bytes": "500",
    "log.retention.ms": "-1",
    "log.initial.task.delay.ms": "0",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "0",
    "log.flush.offset.checkpoint.interval.ms": "100",
}
TOPICS = {
    "mixed": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "recompressed": {"compression.type": "lz4"},
}
each_topic = pytest.mark.parametrize("topic", TOPICS)

ROUNDS, KEYS = 40, 20
COUNT = ROUNDS * KEYS
FIRST_MS = 1_700_000_000_000
DEADLINE_S = 60


def key(number: int) -> bytes:
    """In every fourth round each key is the only one of its kind; in the others all keys come again."""
    return b"only-%d" % number if number // KEYS % 4 == 0 else b"again-%d" % (number % KEYS)


def record(number: int) -> Record:
    """One record in ten is a tombstone. Times lie out of order within a round."""
    value = None if number % 10 == 3 else b"%04d %s" % (number, b"repeated " * (number % 50))
    return Record(key(number), value, (("number", b"%d" % number),), FIRST_MS + (number ^ 7) * 100)


LATEST = {key(number): number for number in range(COUNT)}


def write(client: Confluent, topic: str, *, idempotent: Container[int] = ()) -> None:
    for number in range(ROUNDS):
        records = [record(number * KEYS + each) for each in range(KEYS)]
        compression = COMPRESSIONS[number % len(COMPRESSIONS)]
        client.produce(topic, records, compression=compression, acks="all" if number in idempotent else "1")


def wait_until_compacted(client: Confluent, directory: Path) -> None:
    """Until nothing is left to compact but the active segment, in which few rounds fit."""
    deadline = time.monotonic() + DEADLINE_S
    while count_records(directory) > len(LATEST) + 10 * KEYS:
        assert time.monotonic() < deadline, "the cleaner stands still"
        client.offset("compacted", "latest")


def count_records(directory: Path) -> int:
    try:
        segments = [log.read_bytes() for log in directory.glob("*.log")]
    except FileNotFoundError:  # the cleaner has just replaced a segment
        return count_records(directory)
    return sum(header.record_count for segment in segments for header, _ in iterate(segment))


def damage(directory: Path) -> None:
    """What a crash of the machine leaves: a torn batch at the end, an index that is gone, and one cut in an entry."""
    last = max(directory.glob("*.log"))
    torn = last.read_bytes()[:100]
    with last.open("ab") as log:
        log.write(torn)
    gone, cut, *_ = sorted(directory.glob("*.index"))
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-3])


def read_everywhere(client: Confluent) -> None:
    """An index is looked at, and built anew if need be, when it is first used."""
    for offset in range(KEYS, COUNT, KEYS):
        assert offset in client.consume("mixed", 1, FromOffset(offset))


class Left:
    """The files of a broker that has ended."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, topic: str, suffix: str) -> list[Path]:
        return sorted((self._directory / f"{topic}-0").glob(f"*{suffix}"))


@pytest.fixture(scope="module", params=["stopped", "killed"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Left:
    """After a clean stop, or after a kill -9, damage, and the recovery of both."""
    directory = tmp_path_factory.mktemp("dumped") / "data"
    with BrokerProcess(directory, SETTINGS) as broker:
        client = Confluent(broker.bootstrap_servers)
        for topic, configs in TOPICS.items():
            client.create_topic(topic, configs=configs)
            write(client, topic, idempotent=range(0, ROUNDS, 8) if topic == "mixed" else ())
        wait_until_compacted(client, directory / "compacted-0")
        if request.param == "killed":
            broker.kill()
            damage(directory / "mixed-0")
            broker.start()
            read_everywhere(Confluent(broker.bootstrap_servers))
        assert broker.stop() == 0
    return Left(directory)


def test_every_record_is_found_with_its_cells(dump_log: DumpLog, left: Left) -> None:
    assert len(left("mixed", ".log")) > 2

    dump = dump_log(left("mixed", ".log"), "--deep-iteration", "--print-data-log")

    assert not dump.complaints
    assert not dump.holes
    assert {batch["isvalid"] for batch in dump.batches} == {"true"}
    assert {batch["compresscodec"].lower() for batch in dump.batches} == set(COMPRESSIONS)
    assert len(dump.records) == COUNT
    for number, found in enumerate(dump.records):
        expected = record(number)
        assert int(found["offset"]) == number
        assert int(found["CreateTime"]) == expected.timestamp_ms
        assert found["key"].encode() == expected.key
        assert int(found["valueSize"]) == (-1 if expected.value is None else len(expected.value))
        assert found["headerKeys"] == "[number]"


@each_topic
def test_indexes_pass_the_sanity_check_of_kafka(dump_log: DumpLog, left: Left, topic: str) -> None:
    segments = {path.stem for path in left(topic, ".log")}
    assert {path.stem for path in left(topic, ".index")} == segments
    assert {path.stem for path in left(topic, ".timeindex")} == segments
    indexes = left(topic, ".index") + left(topic, ".timeindex")

    dump = dump_log(indexes, "--index-sanity-check")

    assert not dump.complaints
    assert len([line for line in dump.others if line.endswith(("passed sanity check.", "is empty."))]) == len(indexes)


@each_topic
def test_every_index_entry_leads_to_its_batch(dump_log: DumpLog, left: Left, topic: str) -> None:
    indexes = left(topic, ".index") + left(topic, ".timeindex")

    assert not dump_log(indexes, "--verify-index-only").complaints

    entries = dump_log(indexes).others
    assert any(line.startswith("offset: ") for line in entries)
    assert any(line.startswith("timestamp: ") for line in entries)


def test_compacted_segments_are_intact(dump_log: DumpLog, left: Left) -> None:
    dump = dump_log(left("compacted", ".log"), "--deep-iteration", "--print-data-log")

    assert not dump.complaints
    assert {batch["isvalid"] for batch in dump.batches} == {"true"}
    assert len(dump.records) < COUNT
    assert {found["key"].encode(): int(found["offset"]) for found in dump.records} == LATEST
    for found in dump.records:
        assert int(found["CreateTime"]) == record(int(found["offset"])).timestamp_ms


def test_the_broker_stamps_and_compresses_as_the_topic_says(dump_log: DumpLog, left: Left) -> None:
    stamped = dump_log(left("stamped", ".log"), "--deep-iteration")
    recompressed = dump_log(left("recompressed", ".log"), "--deep-iteration")

    for dump in (stamped, recompressed):
        assert not dump.complaints
        assert {batch["isvalid"] for batch in dump.batches} == {"true"}
        assert [int(found["offset"]) for found in dump.records] == list(range(COUNT))
    assert all(int(found["LogAppendTime"]) > FIRST_MS for found in stamped.records)
    assert {batch["compresscodec"].lower() for batch in recompressed.batches} == {"lz4"}


def test_the_last_snapshot_holds_the_producers_that_the_log_holds(dump_log: DumpLog, left: Left) -> None:
    batches = dump_log(left("mixed", ".log")).batches
    produced = {(batch["producerId"], batch["lastOffset"]) for batch in batches if batch["producerId"] != "-1"}

    dump = dump_log(left("mixed", ".snapshot"))

    assert not dump.complaints
    start = max(index for index, line in enumerate(dump.others) if line.startswith("Dumping "))
    entries = [fields(line) for line in dump.others[start + 1 :]]
    assert {(entry["producerId"], entry["lastOffset"]) for entry in entries} == produced


def test_the_catalog_is_a_log_that_kafka_reads(dump_log: DumpLog, left: Left) -> None:
    dump = dump_log(left("__headwater_catalog", ".log"), "--deep-iteration", "--print-data-log")

    assert not dump.complaints
    assert {batch["isvalid"] for batch in dump.batches} == {"true"}
    assert len(dump.records) >= len(TOPICS)
