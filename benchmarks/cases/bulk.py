"""Bulk produce and consume with librdkafka: how much goes through per second, and what it costs the broker.

The cases of sizes, partitions, codecs and acks differ in one property of this workload each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from benchmarks import page_cache
from benchmarks.broker_process import BrokerProcess
from benchmarks.clients import Outcome, Run, explained, run
from benchmarks.figures import Figure
from benchmarks.loads import librdkafka, warm_up
from benchmarks.scale import KIB, MIB, Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic

PARTITIONS = 6
RECORD_BYTES = KIB
# Large enough for a batch with one record of 1 MiB, which is larger than 1 MiB.
MESSAGE_BYTES_MAX = str(2 * MIB)
WARM_UP_TOPIC = "warm-up"
# Records sent with acks=0 may arrive a moment after their producer has finished.
ARRIVAL_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    record_bytes: int = RECORD_BYTES
    partitions: int = PARTITIONS
    producer: Mapping[str, str] = field(default_factory=dict[str, str])

    def records(self, scale: Scale) -> int:
        return max(1, min(scale.bulk_records, scale.bulk_bytes // self.record_bytes))

    @property
    def topic(self) -> str:
        return "bulk-" + "".join(letter if letter.isalnum() else "-" for letter in self.name)


def prepare(system: System, broker: BrokerProcess, scale: Scale) -> None:
    """Before the first load of a broker."""
    create_topic(broker.address, WARM_UP_TOPIC, 1, system.topic_settings(Flush.OS))
    load = partial(warm_up.produce_and_fetch, topic=WARM_UP_TOPIC, seconds=scale.warm_up_seconds)
    run(broker, partial(load, address=broker.address))


def produce(
    system: System, broker: BrokerProcess, workload: Workload, scale: Scale, flush: Flush = Flush.OS
) -> Run[Outcome]:
    settings = {**system.topic_settings(flush), "max.message.bytes": MESSAGE_BYTES_MAX}
    create_topic(broker.address, workload.topic, workload.partitions, settings)
    records = workload.records(scale)
    page_cache.prepare(broker.directory, records * workload.record_bytes)
    load = partial(librdkafka.produce, topic=workload.topic, records=records, record_bytes=workload.record_bytes)
    client = {"message.max.bytes": MESSAGE_BYTES_MAX, **workload.producer}
    measured = run(broker, partial(load, address=broker.address, settings=client))
    check_record_count(broker.address, workload.topic, workload.partitions, records, ARRIVAL_TIMEOUT_S)
    return measured


def consume(broker: BrokerProcess, workload: Workload, scale: Scale) -> Run[Outcome]:
    load = partial(
        librdkafka.consume,
        topic=workload.topic,
        partitions=workload.partitions,
        records=workload.records(scale),
        record_bytes=workload.record_bytes,
    )
    return run(broker, partial(load, address=broker.address))


def produce_and_consume(system: System, broker: BrokerProcess, workload: Workload, scale: Scale) -> Iterator[Figure]:
    yield from figures(produce(system, broker, workload, scale), f"{workload.name}: produce")
    yield from figures(consume(broker, workload, scale), f"{workload.name}: consume")


def figures(measured: Run[Outcome], name: str) -> Iterator[Figure]:
    """The figures that every bulk case reports over all its loads together."""
    seconds = max(outcome.seconds for outcome in measured.outcomes)
    gigabytes = sum(outcome.bytes for outcome in measured.outcomes) / 1e9
    records = sum(outcome.records for outcome in measured.outcomes)
    client_s = sum(outcome.client.total_s for outcome in measured.outcomes)
    yield explained(measured, name, "MB/s", gigabytes * 1e3 / seconds)
    yield Figure(f"{name}, records", "records/s", records / seconds)
    yield Figure(f"{name}, broker CPU", "s/GB", measured.broker.total_s / gigabytes)
    yield Figure(f"{name}, broker CPU in user space", "s/GB", measured.broker.user_s / gigabytes)
    yield Figure(f"{name}, client CPU", "s/GB", client_s / gigabytes)
