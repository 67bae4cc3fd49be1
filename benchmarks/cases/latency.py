"""End-to-end latency at a fixed rate of records, below what the broker can take: alone, and beside a bulk producer."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.cases import bulk
from benchmarks.cases.bulk import Workload
from benchmarks.clients import Load, Outcome, Run, Timed, explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import large_batches, latency, librdkafka, requests
from benchmarks.loads.latency import Latency
from benchmarks.scale import KIB, MIB, Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import create_topic
from headwater.protocol.batches.compression import Codec

# Beside what batches small requests are measured: their codec, and their size before compression. The smaller ones have
# about a mebibyte after it, a topic's limit by default; the largest is near `headwater.batch.decompressed.bytes.max`.
LARGE_BATCHES = ((Codec.LZ4, 2), (Codec.ZSTD, 4), (Codec.SNAPPY, 2), (Codec.GZIP, 4), (Codec.ZSTD, 90))
LARGE_TOPIC = {"max.message.bytes": str(100 * MIB), "retention.bytes": str(MIB), "segment.bytes": str(100 * MIB)}
SMALL_CONNECTIONS, SMALL_RATE = 16, 1_000
# The rate of the bulk producer: below the capacity of a broker, so that latency does not measure a growing queue.
BULK_BYTES_PER_SECOND = 50_000_000


def _figures(rate: int, measured: Run[Timed], seen: Latency) -> Iterator[Figure]:
    yield explained(measured, f"{rate}/s p50", "ms", seen.p50_ms)
    yield explained(measured, f"{rate}/s p99", "ms", seen.p99_ms)
    yield explained(measured, f"{rate}/s p99.9", "ms", seen.p999_ms)


def _raw(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for rate in scale.rates:
            topic = f"latency-{rate}"
            create_topic(broker.address, topic, 1, system.topic_settings(Flush.OS))
            load = partial(latency.produce_and_fetch, rate=rate, seconds=scale.latency_seconds, acks=-1)
            measured = run(broker, partial(load, address=broker.address, topic=topic))
            yield from _figures(rate, measured, measured.outcomes[0])


def _librdkafka(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for rate in scale.rates:
            yield from _at_rate(system, broker, scale, rate, [])


def _beside_bulk(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    workload = Workload("beside")
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        create_topic(broker.address, workload.topic, workload.partitions, system.topic_settings(Flush.OS))
        beside = partial(
            librdkafka.produce_steadily,
            address=broker.address,
            topic=workload.topic,
            rate=BULK_BYTES_PER_SECOND // KIB,
            record_bytes=KIB,
            seconds=scale.latency_seconds,
        )
        for rate in scale.rates:
            yield from _at_rate(system, broker, scale, rate, [beside])


def _at_rate(
    system: System, broker: BrokerProcess, scale: Scale, rate: int, beside: Sequence[Load[Outcome]]
) -> Iterator[Figure]:
    topic = f"latency-{rate}"
    create_topic(broker.address, topic, 1, system.topic_settings(Flush.OS))
    to = {"address": broker.address, "topic": topic, "rate": rate, "seconds": scale.latency_seconds}
    consume = partial(librdkafka.consume_latencies, **to)
    produce = partial(librdkafka.produce_at_rate, **to)
    measured: Run[Latency | Outcome] = run(broker, consume, produce, *beside)
    seen = measured.outcomes[0]
    assert isinstance(seen, Latency), "the consumer measures"
    yield from _figures(rate, measured, seen)


def _beside_large_batches(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        topic_settings = {**system.topic_settings(Flush.OS), **LARGE_TOPIC}
        create_topic(broker.address, "small", 1, topic_settings)
        small = partial(
            requests.produce_at_rate,
            address=broker.address,
            topic="small",
            connections=SMALL_CONNECTIONS,
            rate=SMALL_RATE,
            seconds=scale.latency_seconds,
        )
        yield from _beside("alone", run(broker, small))
        for codec, mebibytes in LARGE_BATCHES:
            topic = f"large-{codec.name.lower()}-{mebibytes}"
            create_topic(broker.address, topic, 1, topic_settings)
            large = partial(
                large_batches.produce,
                address=broker.address,
                topic=topic,
                codec=codec,
                decompressed_bytes=mebibytes * MIB,
                seconds=scale.latency_seconds,
            )
            measured: Run[Latency | Outcome] = run(broker, small, large)
            name = f"{codec.name.lower()}, {mebibytes} MiB"
            yield from _beside(name, measured)
            sent = measured.outcomes[1]
            assert isinstance(sent, Outcome), "the client with the large batches"
            yield Figure(f"{name}: large batches", "MB/s", sent.megabytes_per_second)


def _beside(name: str, measured: Run[Latency] | Run[Latency | Outcome]) -> Iterator[Figure]:
    seen = measured.outcomes[0]
    assert isinstance(seen, Latency), "the clients with small requests"
    yield explained(measured, f"{name}: p50", "ms", seen.p50_ms)
    yield explained(measured, f"{name}: p99", "ms", seen.p99_ms)
    yield explained(measured, f"{name}: p99.9", "ms", seen.p999_ms)


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
LATENCY_BESIDE_BULK = Case(
    "latency-beside-bulk",
    f"as latency-librdkafka while another producer writes {BULK_BYTES_PER_SECOND // 10**6} MB/s to another topic",
    _beside_bulk,
)
LATENCY_BESIDE_LARGE_BATCHES = Case(
    "latency-beside-large-batches",
    f"one 100 B record per request, {SMALL_RATE}/s over {SMALL_CONNECTIONS} connections, acks=all, flush=os, while "
    "another client sends large compressed batches to another topic, one after the other",
    _beside_large_batches,
)
