"""Queues: one is filled while its consumers take the records and acknowledge each by itself; then its latency.

A queue is one partition with a share group, a RabbitMQ queue, or a Redis stream with a group.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.cases import bulk
from benchmarks.clients import PROCESSES, Outcome, Run, explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import amqp_queues, queues, redis_groups, share_groups
from benchmarks.loads.latency import RECORD_BYTES, Latency
from benchmarks.loads.queues import QueueClient
from benchmarks.scale import Scale
from benchmarks.systems import HEADWATER, RABBITMQ_CLASSIC, REDIS, Flush, System

CLIENTS: dict[str, QueueClient] = {
    HEADWATER.protocol: share_groups,
    REDIS.protocol: redis_groups,
    RABBITMQ_CLASSIC.protocol: amqp_queues,
}
WARM_UP = "warm-up-queue"
# A member learns its partitions with a heartbeat. The default of five seconds would be most of the run.
HEARTBEATS = {"group.share.min.heartbeat.interval.ms": "1000", "group.share.heartbeat.interval.ms": "1000"}


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    client = CLIENTS[system.protocol]
    settings = system.topic_settings(Flush.OS)
    is_kafka = system.protocol == HEADWATER.protocol
    with system.start(directory, HEARTBEATS if is_kafka else {}) as broker:
        if is_kafka:
            # Java compiles hot code at run time; the other brokers are compiled ahead of time.
            bulk.prepare(system, broker, scale)
        client.create(broker.address, WARM_UP, settings)
        _drain(client, broker, WARM_UP, 1, scale)
        for consumers in scale.queue_consumers:
            queue = f"queue-{consumers}"
            client.create(broker.address, queue, settings)
            measured = _drain(client, broker, queue, consumers, scale)
            seconds = max(outcome.seconds for outcome in measured.outcomes)
            name = f"{consumers} consumer{'s' if consumers > 1 else ''}"
            yield explained(measured, name, "records/s", scale.queue_records / seconds)
            yield _cost(name, measured.broker.total_s / scale.queue_records)
        for rate in scale.queue_rates:
            queue = f"queue-at-{rate}"
            client.create(broker.address, queue, settings)
            yield from _at_rate(client, broker, queue, rate, scale)


def _drain(client: QueueClient, broker: BrokerProcess, queue: str, consumers: int, scale: Scale) -> Run[Outcome]:
    load = {"address": broker.address, "queue": queue, "records": scale.queue_records, "record_bytes": RECORD_BYTES}
    consume = partial(
        queues.consume,
        open_consumer=client.open_consumer,
        consumers=consumers,
        received=PROCESSES.Value("q", 0),
        **load,
    )
    return run(broker, partial(client.publish, **load), *[consume] * consumers)


def _at_rate(client: QueueClient, broker: BrokerProcess, queue: str, rate: int, scale: Scale) -> Iterator[Figure]:
    load = {"address": broker.address, "queue": queue, "rate": rate, "seconds": scale.latency_seconds}
    consume = partial(queues.consume_latencies, open_consumer=client.open_consumer, **load)
    measured: Run[Latency | Outcome] = run(broker, consume, partial(client.publish_at_rate, **load))
    seen = measured.outcomes[0]
    assert isinstance(seen, Latency), "the consumer measures"
    yield explained(measured, f"{rate}/s p50", "ms", seen.p50_ms)
    yield explained(measured, f"{rate}/s p99", "ms", seen.p99_ms)
    yield _cost(f"{rate}/s", measured.broker.total_s / (rate * scale.latency_seconds))


def _cost(name: str, seconds: float) -> Figure:
    return Figure(f"{name}: broker CPU", "us/record", seconds * 1e6)


QUEUES = Case(
    "queues",
    f"{RECORD_BYTES} B records published, received and acknowledged one by one, all at the same time; then end to end "
    "at a fixed rate with one consumer. Share groups with librdkafka, the others over plain sockets",
    _measure,
    settings=HEARTBEATS,
    protocols=frozenset(CLIENTS),
)
