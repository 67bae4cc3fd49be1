"""Kafka's own performance tools as clients: bulk produce and consume, and one record after another end to end."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import page_cache
from benchmarks.broker_process import BrokerProcess
from benchmarks.cases import bulk
from benchmarks.cases.bulk import PARTITIONS
from benchmarks.cases.sizes import size_name
from benchmarks.clients import Run, explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import java_tools
from benchmarks.loads.java_tools import Rate, ToolOutput
from benchmarks.scale import KIB, Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic

RECORD_SIZES = (100, KIB)
ACKS = ("1", "all")
LATENCY_RECORD_BYTES = 100
# The number of measured records per warm-up record, during which the producer connects and Java compiles. Warm-up
# records still in flight when the tool's clock starts lengthen the measurement, so they are few.
RECORDS_PER_WARM_UP = 20
# The load ends the tool earlier.
TIMEOUT_S = java_tools.TIMEOUT_S + 30
# A group of one member need not wait for others to join.
GROUP_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def _produce_all(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for size in RECORD_SIZES:
            for acks in ACKS:
                measured = _produce(system, broker, f"produce-{size}-{acks}", size, acks, scale)
                yield from _figures(measured, f"{size_name(size)}, acks={acks}: produce", size, scale)


def _consume_all(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory, GROUP_SETTINGS) as broker:
        bulk.prepare(system, broker, scale)
        for size in RECORD_SIZES:
            topic = f"consume-{size}"
            _produce(system, broker, topic, size, "all", scale)
            to = {"archives": java_tools.archives(), "address": broker.address, "topic": topic}
            load = partial(java_tools.consume, records=sum(_records(size, scale)))
            measured = run(broker, partial(load, **to), timeout_s=TIMEOUT_S)
            yield from _figures(measured, f"{size_name(size)}: consume", size, scale)


def _latency(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    topic, records = "latency", scale.java_round_trips
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        create_topic(broker.address, topic, 1, system.topic_settings(Flush.OS))
        load = partial(java_tools.produce_and_consume, records=records, record_bytes=LATENCY_RECORD_BYTES, acks="all")
        to = {"archives": java_tools.archives(), "address": broker.address, "topic": topic}
        measured = run(broker, partial(load, **to), timeout_s=TIMEOUT_S)
        check_record_count(broker.address, topic, 1, records)
    seen = measured.outcomes[0].result
    yield explained(measured, "mean", "ms", seen.mean_ms)
    yield explained(measured, "p50", "ms", seen.p50_ms)
    yield explained(measured, "p99", "ms", seen.p99_ms)
    yield explained(measured, "p99.9", "ms", seen.p999_ms)
    # The first record came before the CPU time was counted.
    yield Figure("broker CPU", "us/record", measured.broker.total_s / (records - 1) * 1e6)


def _produce(
    system: System, broker: BrokerProcess, topic: str, record_bytes: int, acks: str, scale: Scale
) -> Run[ToolOutput[Rate]]:
    warm_up_records, records = _records(record_bytes, scale)
    create_topic(broker.address, topic, PARTITIONS, system.topic_settings(Flush.OS))
    page_cache.prepare(broker.directory, (warm_up_records + records) * record_bytes)
    load = partial(java_tools.produce, records=records, warm_up_records=warm_up_records, record_bytes=record_bytes)
    to = {"archives": java_tools.archives(), "address": broker.address, "topic": topic, "acks": acks}
    measured = run(broker, partial(load, **to), timeout_s=TIMEOUT_S)
    check_record_count(broker.address, topic, PARTITIONS, warm_up_records + records)
    return measured


def _records(record_bytes: int, scale: Scale) -> tuple[int, int]:
    """The numbers of warm-up records and of measured records."""
    records = min(scale.java_records, scale.bulk_bytes // record_bytes)
    return records // RECORDS_PER_WARM_UP, records


def _figures(measured: Run[ToolOutput[Rate]], name: str, record_bytes: int, scale: Scale) -> Iterator[Figure]:
    """The figures of every bulk case. The rate is the tool's own; CPU time covers all records."""
    told = measured.outcomes[0]
    gigabytes = sum(_records(record_bytes, scale)) * record_bytes / 1e9
    yield explained(measured, name, "MB/s", told.result.per_second * record_bytes / 1e6)
    yield Figure(f"{name}, records", "records/s", told.result.per_second)
    yield Figure(f"{name}, broker CPU", "s/GB", measured.broker.total_s / gigabytes)
    yield Figure(f"{name}, broker CPU in user space", "s/GB", measured.broker.user_s / gigabytes)
    yield Figure(f"{name}, client CPU", "s/GB", told.client.total_s / gigabytes)


JAVA_PRODUCE = Case(
    "java-produce",
    f"Kafka's ProducerPerformance with its default settings, {PARTITIONS} partitions, flush=os; its rate in steady "
    f"state, after one record to warm up for {RECORDS_PER_WARM_UP} that count",
    _produce_all,
    missing=java_tools.missing,
)
JAVA_CONSUME = Case(
    "java-consume",
    f"Kafka's ConsumerPerformance with its default settings reads what ProducerPerformance wrote, {PARTITIONS} "
    "partitions; its rate without the time in which it joins its group",
    _consume_all,
    GROUP_SETTINGS,
    missing=java_tools.missing,
)
JAVA_LATENCY = Case(
    "java-latency",
    f"Kafka's EndToEndLatency: sends a record of {LATENCY_RECORD_BYTES} B and waits until it has read it, one after "
    "another, 1 partition, acks=all, flush=os; it cuts percentiles to whole milliseconds, and its own start is in them",
    _latency,
    missing=java_tools.missing,
)
