"""Bulk fetch of what the page cache holds."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import page_cache
from benchmarks.cases.produce import TOPIC, figures
from benchmarks.clients import run
from benchmarks.figures import Case, Figure
from benchmarks.loads import bulk, librdkafka
from benchmarks.scale import MIB, Scale
from benchmarks.systems import BrokerProcess, Flush, System
from benchmarks.topics import create_topic

# The raw client reads what is there several times, or it would be done before the clock has moved.
RAW_PASSES = 4
RAW_FETCH_BYTES = 8 * MIB


def fill(system: System, broker: BrokerProcess, bytes_wanted: int) -> int:
    """Gives the number of records that were written, all to one partition."""
    create_topic(broker.address, TOPIC, 1, system.topic_settings(Flush.OS))
    page_cache.prepare(broker.directory, bytes_wanted)
    batches = bulk.batches_in(bytes_wanted)
    run(broker, partial(bulk.produce, address=broker.address, topic=TOPIC, batches=batches, acks=1))
    return batches * bulk.BATCH_RECORDS


def _librdkafka(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        records = fill(system, broker, scale.bulk_bytes)
        consume = partial(librdkafka.consume, topic=TOPIC, partitions=1, record_bytes=bulk.BATCH_RECORD_BYTES)
        measured = run(broker, partial(consume, address=broker.address, records=records))
    yield from figures(measured)


def _raw(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        fill(system, broker, scale.bulk_bytes)
        fetch = partial(bulk.fetch, topic=TOPIC, bytes_per_fetch=RAW_FETCH_BYTES)
        measured = run(broker, partial(fetch, address=broker.address, bytes_wanted=RAW_PASSES * scale.bulk_bytes))
    yield from figures(measured)


FETCH = Case("fetch", "librdkafka, 1 KiB records, 1 partition, from the page cache", _librdkafka)
FETCH_RAW = Case(
    "fetch-raw", "plain socket that discards what it reads, 1 KiB records, 1 partition, 8 MiB per fetch", _raw
)
