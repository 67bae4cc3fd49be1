"""An idempotent producer that sends numbered records at an even pace, several at a time."""

import threading
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.faults.histories.clients.options import Options, connection
from tests.faults.histories.recording import Invocation, Recorder

AT_A_TIME = 6
UNANSWERED_MAX = 500
EXPIRES_EACH = 7
DELIVERY_TIMEOUT_MS = 120_000


def run(options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
    settings = {"enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": DELIVERY_TIMEOUT_MS}
    producer = Producer(connection(options) | settings)
    topic, keys = options["topic"], options.get("keys", 50)
    at_a_time, ttl_ms = options.get("at_a_time", AT_A_TIME), options.get("ttl_ms")
    pause_s = at_a_time / options.get("per_second", 300)
    number = 0
    while not is_told_to_stop.wait(pause_s):
        producer.poll(0)
        if len(producer) > UNANSWERED_MAX:
            continue
        for _ in range(at_a_time):
            value, key = f"{options['name']}:{number}", f"{number % keys}"
            # Several in a row go to the same partition, so that batches have more than one record.
            partition = number // at_a_time % options["topics"][topic]
            sent = recorder.invoke(
                "send", topic=topic, partition=partition, key=key, value=value, transaction=None, source=None
            )
            headers: Any = {"headwater-ttl-ms": str(ttl_ms)} if ttl_ms and not number % EXPIRES_EACH else None
            producer.produce(
                topic, value, key=key, partition=partition, headers=headers, on_delivery=partial(told, sent)
            )
            number += 1
    producer.flush(DELIVERY_TIMEOUT_MS / 1000)


def told(sent: Invocation, error: KafkaError | None, message: Message) -> None:
    if error is None:
        sent.ok(offset=message.offset())
    elif error.code() == KafkaError._PURGE_QUEUE:
        # The record never left the client.
        sent.fail(error=error.name())
    else:
        sent.info(error=error.name())
