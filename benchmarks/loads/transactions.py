"""Transactions of librdkafka, one after another, and the same records of an idempotent producer without them."""

import time
from collections.abc import Callable

from confluent_kafka import Producer

from benchmarks.clients import Outcome
from benchmarks.loads.librdkafka import DEADLINE_S, PRODUCER
from benchmarks.processes import Meter


def produce(
    ready: Callable[[], None],
    address: str,
    topic: str,
    transactional_id: str | None,
    transactions: int,
    transaction_records: int,
    record_bytes: int,
) -> Outcome:
    """Without a transactional id the same calls are made, but for those that begin and commit."""
    settings = {"bootstrap.servers": address, **PRODUCER, "enable.idempotence": True}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    producer = Producer(settings)
    producer.list_topics(topic, timeout=10)
    messages = [{"value": bytes(record_bytes)} for _ in range(transaction_records)]
    if transactional_id is not None:
        producer.init_transactions(DEADLINE_S)
    # The first batch of all may have to wait for its producer id.
    _write(producer, topic, messages, is_transaction=transactional_id is not None)
    _flush(producer)
    ready()
    meter = Meter.of_this_process()
    started = time.perf_counter()
    for _ in range(transactions):
        _write(producer, topic, messages, is_transaction=transactional_id is not None)
    _flush(producer)
    seconds = time.perf_counter() - started
    records = transactions * transaction_records
    return Outcome(seconds, records, records * record_bytes, meter.read())


def _write(producer: Producer, topic: str, messages: list[dict[str, bytes]], *, is_transaction: bool) -> None:
    if is_transaction:
        producer.begin_transaction()
    deadline = time.perf_counter() + DEADLINE_S
    queued = 0
    while queued < len(messages):
        accepted = producer.produce_batch(topic, messages[queued:])
        queued += accepted
        # A full queue takes nothing for a while.
        producer.poll(0 if accepted else 0.001)
        if time.perf_counter() > deadline:
            raise TimeoutError("the producer's queue stays full")
    if is_transaction:
        producer.commit_transaction(DEADLINE_S)


def _flush(producer: Producer) -> None:
    if producer.flush(DEADLINE_S):
        raise TimeoutError("not all records were acknowledged")
