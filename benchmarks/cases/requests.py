"""Synchronous requests of one record: the cost of a request itself, and the effect of group commit on many at once."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.cases import bulk
from benchmarks.clients import explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import requests
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic

ACKS = {"acks=1": 1, "acks=all": -1}
# Group commit syncs each file: many partitions are its hard case.
MANY_PARTITIONS = 12
MANY_CONNECTIONS = 64
# With more requests, a broker that syncs for each one would take too long.
DISK_CONNECTIONS_MAX = 500


def _measure(flush: Flush, system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for name, acks in ACKS.items():
            for connections in scale.connections:
                if flush is Flush.ACK and connections > DISK_CONNECTIONS_MAX:
                    continue
                title = f"{name}, {connections:,} connection{'s' if connections > 1 else ''}"
                yield from _rate(broker, system, flush, title, 1, connections, acks, scale)
        many = min(MANY_CONNECTIONS, max(scale.connections))
        title = f"acks=all, {many} connections, {MANY_PARTITIONS} partitions"
        yield from _rate(broker, system, flush, title, MANY_PARTITIONS, many, -1, scale)


def _rate(
    broker: BrokerProcess,
    system: System,
    flush: Flush,
    name: str,
    partitions: int,
    connections: int,
    acks: int,
    scale: Scale,
) -> Iterator[Figure]:
    topic = f"requests-{partitions}-{connections}-{acks}".replace("--", "-all-")
    create_topic(broker.address, topic, partitions, system.topic_settings(flush))
    load = partial(requests.produce, topic=topic, partitions=partitions, connections=connections, acks=acks)
    measured = run(broker, partial(load, address=broker.address, seconds=scale.seconds))
    outcome = measured.outcomes[0]
    check_record_count(broker.address, topic, partitions, connections + outcome.records)
    yield explained(measured, name, "requests/s", outcome.records_per_second)
    yield Figure(f"{name}: p99", "ms", outcome.p99_ms)
    yield Figure(f"{name}: broker CPU", "us/request", measured.broker.total_s / outcome.records * 1e6)


def _at_rates(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for rate in scale.request_rates:
            topic = f"requests-{rate}"
            create_topic(broker.address, topic, 1, system.topic_settings(Flush.OS))
            load = partial(requests.produce_at_rate, topic=topic, connections=MANY_CONNECTIONS, rate=rate)
            measured = run(broker, partial(load, address=broker.address, seconds=scale.latency_seconds))
            seen = measured.outcomes[0]
            yield explained(measured, f"{rate}/s p50", "ms", seen.p50_ms)
            yield explained(measured, f"{rate}/s p99", "ms", seen.p99_ms)
            yield explained(measured, f"{rate}/s p99.9", "ms", seen.p999_ms)


REQUESTS_OS = Case(
    "requests-os",
    "one 100 B record per request, each connection waits for its acknowledgement, flush=os",
    partial(_measure, Flush.OS),
)
REQUESTS_ACK = Case(
    "requests-ack",
    "as requests-os, on disk: flush=ack, where acks=1 is on disk within headwater.flush.interval.ms; Kafka with "
    "flush.messages=1, where either is",
    partial(_measure, Flush.ACK),
)
REQUESTS_AT_RATE = Case(
    "requests-at-rate",
    f"one 100 B record per request at a fixed rate over {MANY_CONNECTIONS} connections, acks=all, flush=os",
    _at_rates,
)
