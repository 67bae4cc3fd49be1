"""One-record synchronous requests: the cost of a request itself, and what group commit makes of many at once."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.clients import explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import requests
from benchmarks.scale import Scale
from benchmarks.systems import BrokerProcess, Flush, System
from benchmarks.topics import check_record_count, create_topic

ACKS = {"acks=1": 1, "acks=all": -1}
CONNECTIONS = (1, 10, 64)
# Group commit syncs each file: many partitions are its hard case.
MANY_PARTITIONS = 12


def _measure(flush: Flush, system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        for name, acks in ACKS.items():
            for connections in CONNECTIONS:
                yield from _rate(
                    broker, system, flush, f"{name}, {connections} connections", 1, connections, acks, scale
                )
        name = f"acks=all, {CONNECTIONS[-1]} connections, {MANY_PARTITIONS} partitions"
        yield from _rate(broker, system, flush, name, MANY_PARTITIONS, CONNECTIONS[-1], -1, scale)


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
    if connections == CONNECTIONS[-1]:
        yield Figure(f"{name}: broker CPU", "us/request", measured.broker.total_s / outcome.records * 1e6)


REQUESTS_OS = Case(
    "requests-os",
    "one 100 B record per request, each connection waits for its acknowledgement, flush=os",
    partial(_measure, Flush.OS),
)
REQUESTS_ACK = Case(
    "requests-ack",
    "as requests-os with flush=ack: acks=all is on disk, acks=1 is on disk within headwater.flush.interval.ms",
    partial(_measure, Flush.ACK),
)
