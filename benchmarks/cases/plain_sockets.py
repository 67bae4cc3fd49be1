"""Bulk produce and fetch over plain sockets that do next to nothing themselves, so that the broker is the limit."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import page_cache
from benchmarks.broker_process import BrokerProcess
from benchmarks.cases.bulk import figures, prepare
from benchmarks.clients import run
from benchmarks.figures import Case, Figure
from benchmarks.loads import bulk
from benchmarks.scale import MIB, Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic

TOPIC = "bulk"
# The data is read several times, because one read would be too short to measure.
FETCH_PASSES = 4
FETCH_BYTES = 8 * MIB
# Beyond the dirty-page limit of the page cache, writes go at the speed of the disk.
FILL_TIMEOUT_S = 600.0


def fill(system: System, broker: BrokerProcess, bytes_wanted: int, topic: str = TOPIC) -> int:
    """Write to one partition; returns the number of records."""
    create_topic(broker.address, topic, 1, system.topic_settings(Flush.OS))
    batches = bulk.batches_in(bytes_wanted)
    produce = partial(bulk.produce, address=broker.address, topic=topic, batches=batches, acks=1)
    run(broker, produce, timeout_s=FILL_TIMEOUT_S)
    return batches * bulk.BATCH_RECORDS


def _produce(flush: Flush, system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        prepare(system, broker, scale)
        create_topic(broker.address, TOPIC, 1, system.topic_settings(flush))
        page_cache.prepare(directory, scale.bulk_bytes)
        batches = bulk.batches_in(scale.bulk_bytes)
        measured = run(broker, partial(bulk.produce, address=broker.address, topic=TOPIC, batches=batches, acks=-1))
        check_record_count(broker.address, TOPIC, 1, batches * bulk.BATCH_RECORDS)
    yield from figures(measured, "produce")


def _fetch(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        prepare(system, broker, scale)
        fill(system, broker, scale.bulk_bytes)
        fetch = partial(bulk.fetch, topic=TOPIC, bytes_per_fetch=FETCH_BYTES)
        measured = run(broker, partial(fetch, address=broker.address, bytes_wanted=FETCH_PASSES * scale.bulk_bytes))
    yield from figures(measured, "fetch")


PRODUCE_RAW = Case(
    "produce-raw",
    "prebuilt batches of 100 records of 1 KiB, 1 partition, 1 connection, acks=all, flush=os",
    partial(_produce, Flush.OS),
)
PRODUCE_DISK = Case(
    "produce-disk",
    "as produce-raw, on disk before each acknowledgement (flush=ack; Kafka: flush.messages=1)",
    partial(_produce, Flush.ACK),
)
FETCH_RAW = Case(
    "fetch-raw", "plain socket that discards what it reads, 1 KiB records, 1 partition, 8 MiB per fetch", _fetch
)
