"""Delayed records through librdkafka: how much later than its time each one reaches a consumer."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.loads.latency import Latency, percentile_ms
from benchmarks.processes import Meter

VALUE = b"v" * 100
# Each record is sent so long before it is due: longer than a busy producer is behind.
AHEAD_MS = 2000
POLL_S = 0.002
CONSUME_MAX = 1000
TIMEOUT_S = 60.0


def deliver(ready: Callable[[], None], address: str, topic: str, partitions: int, rate: int, seconds: float) -> Latency:
    """So many records are due in each second, evenly. The first second is left out: caches fill, threads start."""
    count = int(rate * seconds)
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    consumer = Consumer({"bootstrap.servers": address, "group.id": "delays", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    # Connects, and finds the partitions.
    producer.list_topics(topic, TIMEOUT_S)
    consumer.consume(1, 0.1)
    ready()
    meter = Meter.of_this_process()
    started = time.monotonic()
    first_due_ms = time.time() * 1000 + AHEAD_MS
    lateness_ns: list[int] = []
    sent = received = 0
    while received < count:
        if time.monotonic() - started > seconds + TIMEOUT_S:
            raise TimeoutError(f"{received} of {count} records appeared")
        due_now = min(count, int((time.monotonic() - started) * rate) + 1)
        for number in range(sent, due_now):
            headers: Any = {"headwater-deliver-at": str(round(first_due_ms + number * 1000 / rate))}
            producer.produce(topic, VALUE, partition=number % partitions, headers=headers)
        sent = due_now
        producer.poll(0)
        for message in consumer.consume(CONSUME_MAX, POLL_S):
            _, due_ms = message.timestamp()
            received += 1
            if due_ms >= first_due_ms + 1000:
                lateness_ns.append(time.time_ns() - due_ms * 1_000_000)
    consumer.close()
    lateness_ns.sort()
    elapsed = time.monotonic() - started
    return Latency(elapsed, meter.read(), *(percentile_ms(lateness_ns, share) for share in (0.5, 0.99, 0.999)))
