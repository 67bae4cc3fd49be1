"""Brokers of other protocols beside this one, in the work that they share: appending to a stream and reading it.

Each has one stream without replicas, in files, and acknowledges what the page cache has.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import page_cache
from benchmarks.broker_process import BrokerProcess
from benchmarks.cases import bulk
from benchmarks.cases.sizes import size_name
from benchmarks.clients import explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import kafka_streams, nats_streams, rabbitmq_streams, redis_streams
from benchmarks.loads.requests import RECORD_BYTES
from benchmarks.loads.streams import BLOCK_RECORDS, StreamClient
from benchmarks.processes import resident_bytes
from benchmarks.scale import KIB, Scale
from benchmarks.systems import HEADWATER, NATS, RABBITMQ, REDIS, Flush, System

CLIENTS: dict[str, StreamClient] = {
    HEADWATER.protocol: kafka_streams,
    NATS.protocol: nats_streams,
    REDIS.protocol: redis_streams,
    RABBITMQ.protocol: rabbitmq_streams,
}
CONNECTIONS = 64
BULK_RECORD_BYTES = (100, KIB)
FIRST, APPENDED = "first", "appended"


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    client = CLIENTS[system.protocol]
    settings = system.topic_settings(Flush.OS)
    with system.start(directory) as broker:
        client.create(broker.address, FIRST, settings)
        client.append_once(broker.address, FIRST)
        acknowledged = time.monotonic()
        yield Figure("first ack", "ms", (acknowledged - broker.started) * 1000)
        yield Figure("idle", "MB", resident_bytes(broker.processes) / 1e6)
        if system.protocol == HEADWATER.protocol:
            # Java compiles hot code at run time; the other brokers are compiled ahead of time.
            bulk.prepare(system, broker, scale)
        client.create(broker.address, APPENDED, settings)
        yield from _append(client, broker, scale)
        for record_bytes in BULK_RECORD_BYTES:
            client.create(broker.address, f"bulk-{record_bytes}", settings)
            yield from _bulk(client, broker, record_bytes, scale)


def _append(client: StreamClient, broker: BrokerProcess, scale: Scale) -> Iterator[Figure]:
    connections = min(CONNECTIONS, max(scale.connections))
    load = partial(client.append, address=broker.address, stream=APPENDED)
    measured = run(broker, partial(load, connections=connections, seconds=scale.seconds))
    outcome = measured.outcomes[0]
    # A rate counts only if every acknowledged record can be read.
    written = connections + outcome.records
    read = partial(client.consume, address=broker.address, stream=APPENDED)
    run(broker, partial(read, records=written, record_bytes=RECORD_BYTES))
    name = f"append, {connections} connections"
    yield explained(measured, name, "records/s", outcome.records_per_second)
    yield Figure(f"{name}: p99", "ms", outcome.p99_ms)
    yield Figure(f"{name}: broker CPU", "us/record", measured.broker.total_s / outcome.records * 1e6)


def _bulk(client: StreamClient, broker: BrokerProcess, record_bytes: int, scale: Scale) -> Iterator[Figure]:
    wanted = min(scale.peer_records, scale.bulk_bytes // record_bytes)
    records = max(1, wanted // BLOCK_RECORDS) * BLOCK_RECORDS
    page_cache.prepare(broker.directory, records * record_bytes)
    size = size_name(record_bytes)
    for name, work in (("publish", client.publish), ("consume", client.consume)):
        load = partial(work, address=broker.address, stream=f"bulk-{record_bytes}")
        measured = run(broker, partial(load, records=records, record_bytes=record_bytes))
        yield from bulk.figures(measured, f"{size}: {name}")


PEERS = Case(
    "peers",
    "brokers of four protocols, one stream without replicas, acknowledged from the page cache: start, one-record "
    "appends, bulk publish and consume, over plain sockets with frames made beforehand",
    _measure,
    protocols=frozenset(CLIENTS),
)
