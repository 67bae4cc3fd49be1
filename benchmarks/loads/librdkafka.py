"""The C client that most languages use, through confluent-kafka, with its default settings except for those here."""

import struct
import time
from array import array
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.clients import Outcome
from benchmarks.loads.latency import RECORD_BYTES, SECOND_NS, Latency, summarize
from benchmarks.loads.values import values
from benchmarks.processes import Meter
from benchmarks.scale import MIB

# Room for what the application makes while the network is busy: by bytes, for records of every size alike.
PRODUCER = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 131_072}
# Offsets are not committed and groups are not used. A consumer that has fetched more than the application takes rests
# for a second by default, in which the application runs dry.
CONSUMER = {"group.id": "benchmark", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
# Records per call: enough to amortize the call, and few enough for a queue that is bounded by bytes.
CALL_RECORDS, CALL_BYTES = 5000, 16 * MIB
STEPS_PER_SECOND = 100
DEADLINE_S = 120.0

_TIME = struct.Struct(">q")


def produce(
    ready: Callable[[], None],
    address: str,
    topic: str,
    records: int,
    record_bytes: int,
    settings: Mapping[str, str] = {},
) -> Outcome:
    producer = Producer({"bootstrap.servers": address, **PRODUCER, **settings})
    # Connects and learns who leads the partitions.
    producer.list_topics(topic, timeout=10)
    call_records = min(CALL_RECORDS, CALL_BYTES // record_bytes, records)
    messages = [{"value": value} for value in values(record_bytes, call_records)]
    ready()
    meter = Meter.of_this_process()
    started = time.perf_counter()
    deadline = started + DEADLINE_S
    queued = 0
    while queued < records:
        accepted = producer.produce_batch(topic, messages[: records - queued])
        queued += accepted
        # A full queue takes nothing for a while.
        producer.poll(0 if accepted else 0.001)
        _check(deadline, f"{queued} of {records} records were queued")
    if producer.flush(DEADLINE_S):
        raise TimeoutError("not all records were acknowledged")
    seconds = time.perf_counter() - started
    return Outcome(seconds, records, records * record_bytes, meter.read())


def consume(
    ready: Callable[[], None],
    address: str,
    topic: str,
    partitions: int,
    records: int,
    record_bytes: int,
    group: str | None = None,
    settings: Mapping[str, str] = {},
) -> Outcome:
    """Consume from the first record; with a group, as its only member, which joins while the clock runs."""
    given = {"bootstrap.servers": address, **CONSUMER, "auto.offset.reset": "earliest", **settings}
    consumer = Consumer(given if group is None else {**given, "group.id": group})
    consumer.list_topics(topic, timeout=10)
    ready()
    meter = Meter.of_this_process()
    started = time.perf_counter()
    deadline = started + DEADLINE_S
    if group is None:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    else:
        consumer.subscribe([topic])
    received = 0
    while received < records:
        received += len(values_of(consumer.consume(CALL_RECORDS, timeout=0.1)))
        _check(deadline, f"{received} of {records} records were read")
    seconds = time.perf_counter() - started
    outcome = Outcome(seconds, received, received * record_bytes, meter.read())
    consumer.close()
    return outcome


def produce_at_rate(ready: Callable[[], None], address: str, topic: str, rate: int, seconds: float) -> Outcome:
    """Each value begins with the moment at which it was due."""
    producer = Producer({"bootstrap.servers": address, **PRODUCER, "linger.ms": 0})
    producer.list_topics(topic, timeout=10)
    rest = bytes(RECORD_BYTES - _TIME.size)
    count = int(rate * seconds)
    ready()
    meter = Meter.of_this_process()
    started_ns = time.monotonic_ns()
    for index in range(count):
        due_ns = started_ns + index * SECOND_NS // rate
        wait_ns = due_ns - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / SECOND_NS)
        producer.produce(topic, _TIME.pack(due_ns) + rest)
        producer.poll(0)
    if producer.flush(DEADLINE_S):
        raise TimeoutError("not all records were acknowledged")
    elapsed_s = (time.monotonic_ns() - started_ns) / SECOND_NS
    return Outcome(elapsed_s, count, count * RECORD_BYTES, meter.read())


def produce_steadily(
    ready: Callable[[], None], address: str, topic: str, rate: int, record_bytes: int, seconds: float
) -> Outcome:
    """So many records per second, a hundredth of them at a time."""
    producer = Producer({"bootstrap.servers": address, **PRODUCER})
    producer.list_topics(topic, timeout=10)
    messages = [{"value": value} for value in values(record_bytes, max(1, rate // STEPS_PER_SECOND))]
    ready()
    meter = Meter.of_this_process()
    started = time.perf_counter()
    queued = 0
    for step in range(int(seconds * STEPS_PER_SECOND)):
        time.sleep(max(0.0, started + step / STEPS_PER_SECOND - time.perf_counter()))
        queued += producer.produce_batch(topic, messages)
        producer.poll(0)
    if producer.flush(DEADLINE_S):
        raise TimeoutError("not all records were acknowledged")
    return Outcome(time.perf_counter() - started, queued, queued * record_bytes, meter.read())


def consume_latencies(ready: Callable[[], None], address: str, topic: str, rate: int, seconds: float) -> Latency:
    consumer = Consumer({"bootstrap.servers": address, **CONSUMER})
    consumer.assign([TopicPartition(topic, 0, 0)])
    # Begins to fetch.
    consumer.poll(0.5)
    count = int(rate * seconds)
    latencies = array("q")
    ready()
    meter = Meter.of_this_process()
    started = time.perf_counter()
    deadline = started + seconds + DEADLINE_S
    while len(latencies) < count:
        message = consumer.poll(0.1)
        now_ns = time.monotonic_ns()
        if message is not None:
            latencies.extend(now_ns - _TIME.unpack_from(value)[0] for value in values_of([message]))
        _check(deadline, f"{len(latencies)} of {count} records were read")
    latency = summarize(latencies, rate, time.perf_counter() - started, meter.read())
    consumer.close()
    return latency


def values_of(messages: list[Message]) -> list[bytes]:
    for message in messages:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise RuntimeError(str(error))
    return [value for message in messages if (value := message.value()) is not None]


def _check(deadline: float, progress: str) -> None:
    if time.perf_counter() > deadline:
        raise TimeoutError(f"only {progress} in time")
