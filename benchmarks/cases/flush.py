"""Flush policies: the cost of having an acknowledged record on the disk, at once or soon after."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.cases import bulk
from benchmarks.clients import explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import requests
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for connections in scale.flush_connections:
            rates: dict[Flush, float] = {}
            for flush in Flush:
                topic = f"flush-{flush}-{connections}"
                create_topic(broker.address, topic, 1, system.topic_settings(flush))
                load = partial(requests.produce, topic=topic, partitions=1, connections=connections, acks=-1)
                measured = run(broker, partial(load, address=broker.address, seconds=scale.seconds))
                outcome = measured.outcomes[0]
                check_record_count(broker.address, topic, 1, connections + outcome.records)
                name = f"{connections} connections, {flush}"
                yield explained(measured, name, "requests/s", outcome.records_per_second)
                yield Figure(f"{name}: p99", "ms", outcome.p99_ms)
                rates[flush] = outcome.records_per_second
            yield Figure(f"{connections} connections: ack to os", "times", rates[Flush.ACK] / rates[Flush.OS])


FLUSH = Case(
    "flush",
    "one 100 B record per request, acks=all, flush policies os, interval and ack on one broker; for Kafka its default, "
    "flush.ms and flush.messages=1",
    _measure,
)
