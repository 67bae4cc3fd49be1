"""Bulk produce: how much arrives per second, and what it costs the broker."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import page_cache
from benchmarks.clients import Outcome, Run, explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import bulk, librdkafka
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic

TOPIC = "bulk"
PARTITIONS = 6
# Small records cost the client so much that a quarter of the bytes takes as long.
SMALL_SHARE = 4


def figures(measured: Run[Outcome]) -> Iterator[Figure]:
    """What every bulk case tells."""
    outcome = measured.outcomes[0]
    gigabytes = outcome.bytes / 1e9
    yield explained(measured, "throughput", "MB/s", outcome.megabytes_per_second)
    yield explained(measured, "records", "records/s", outcome.records_per_second)
    yield Figure("broker CPU", "s/GB", measured.broker.total_s / gigabytes)
    yield Figure("broker CPU, user", "s/GB", measured.broker.user_s / gigabytes)
    yield Figure("client CPU", "s/GB", outcome.client.total_s / gigabytes)


def _librdkafka(record_bytes: int, bytes_share: int, system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    records = scale.bulk_bytes // bytes_share // record_bytes
    with system.start(directory) as broker:
        create_topic(broker.address, TOPIC, PARTITIONS, system.topic_settings(Flush.OS))
        page_cache.prepare(directory, scale.bulk_bytes)
        produce = partial(librdkafka.produce, topic=TOPIC, records=records, record_bytes=record_bytes)
        measured = run(broker, partial(produce, address=broker.address))
        check_record_count(broker.address, TOPIC, PARTITIONS, records)
    yield from figures(measured)


def _raw(flush: Flush, system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        create_topic(broker.address, TOPIC, 1, system.topic_settings(flush))
        page_cache.prepare(directory, scale.bulk_bytes)
        batches = bulk.batches_in(scale.bulk_bytes)
        measured = run(broker, partial(bulk.produce, address=broker.address, topic=TOPIC, batches=batches, acks=-1))
        check_record_count(broker.address, TOPIC, 1, batches * bulk.BATCH_RECORDS)
    yield from figures(measured)


PRODUCE_1K = Case(
    "produce-1k",
    f"librdkafka, 1 KiB records, {PARTITIONS} partitions, acks=all, flush=os",
    partial(_librdkafka, 1024, 1),
)
PRODUCE_100 = Case(
    "produce-100",
    f"librdkafka, 100 B records, {PARTITIONS} partitions, acks=all, flush=os",
    partial(_librdkafka, 100, SMALL_SHARE),
)
PRODUCE_RAW = Case(
    "produce-raw",
    "prebuilt batches of 100 records of 1 KiB, 1 partition, 1 connection, acks=all, flush=os",
    partial(_raw, Flush.OS),
)
PRODUCE_DISK = Case(
    "produce-disk",
    "as produce-raw, on disk before each acknowledgement (flush=ack)",
    partial(_raw, Flush.ACK),
)
