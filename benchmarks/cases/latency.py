"""End-to-end latency at a fixed rate of records, below what the broker can take."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.clients import Outcome, Run, Timed, explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import latency, librdkafka
from benchmarks.loads.latency import Latency
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import create_topic

RATES = (1_000, 10_000)


def _figures(rate: int, measured: Run[Timed], seen: Latency) -> Iterator[Figure]:
    yield explained(measured, f"{rate}/s p50", "ms", seen.p50_ms)
    yield explained(measured, f"{rate}/s p99", "ms", seen.p99_ms)
    yield explained(measured, f"{rate}/s p99.9", "ms", seen.p999_ms)


def _raw(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        for rate in RATES:
            topic = f"latency-{rate}"
            create_topic(broker.address, topic, 1, system.topic_settings(Flush.OS))
            load = partial(latency.produce_and_fetch, rate=rate, seconds=scale.latency_seconds, acks=-1)
            measured = run(broker, partial(load, address=broker.address, topic=topic))
            yield from _figures(rate, measured, measured.outcomes[0])


def _librdkafka(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        for rate in RATES:
            topic = f"latency-{rate}"
            create_topic(broker.address, topic, 1, system.topic_settings(Flush.OS))
            to = {"address": broker.address, "topic": topic, "rate": rate, "seconds": scale.latency_seconds}
            consume = partial(librdkafka.consume_latencies, **to)
            produce = partial(librdkafka.produce_at_rate, **to)
            measured: Run[Latency | Outcome] = run(broker, consume, produce)
            seen = measured.outcomes[0]
            assert isinstance(seen, Latency), "the consumer measures"
            yield from _figures(rate, measured, seen)


LATENCY_RAW = Case(
    "latency-raw",
    "plain sockets, a request per record unless 5 are in flight, 1 partition, acks=all, flush=os",
    _raw,
)
LATENCY_LIBRDKAFKA = Case(
    "latency-librdkafka",
    "librdkafka producer (linger.ms=0) and consumer in two processes, 1 partition, acks=all, flush=os",
    _librdkafka,
)
