"""Produces delayed records, idempotently or in transactions, and cancels some of them; and the client that sees them
appear."""

import threading
import time
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from confluent_kafka import KafkaException, Producer

from headwater.client import Cluster, Schedule, ScheduleId
from headwater.errors import ErrorCode, HeadwaterError
from headwater.protocol.batches import batch as batches
from tests.faults.histories.clients.fetcher import Address
from tests.faults.histories.clients.options import Options, connection
from tests.faults.histories.clients.producer import told
from tests.faults.histories.recording import Invocation, Recorder
from tests.support.kafka.raw_client import RawClient

BATCH = 20
PAUSE_S = 0.05
DELAY_MS_MAX = 3000
CANCELS_EACH = 40
ABORTS_EACH = 3
UNANSWERED_MAX = 2000
DELIVERY_TIMEOUT_MS = 120_000
ATTEMPT_S = 20.0
WAIT_MS = 100
BYTES_MAX = 1 << 26


def run(options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
    delayer = (_TransactionalDelayer if "transactional_id" in options else _Delayer)(options, recorder)
    while not is_told_to_stop.wait(PAUSE_S):
        delayer.work()
    delayer.close()


class _Delayer:
    def __init__(self, options: Options, recorder: Recorder) -> None:
        self._options, self._recorder = options, recorder
        self._topic, self._name = options["topic"], options["name"]
        self._random = Random(self._name)
        self._number = 0
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        settings = {"enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": DELIVERY_TIMEOUT_MS}
        return Producer(connection(self._options) | settings)

    def work(self) -> None:
        self._producer.poll(0)
        if len(self._producer) > UNANSWERED_MAX:
            return
        for _ in range(BATCH):
            self._schedule(None)
        if not self._number // BATCH % CANCELS_EACH:
            self._cancel(f"{self._name}:{self._number - BATCH}")

    def _schedule(self, transaction: str | None) -> None:
        value = f"{self._name}:{self._number}"
        partition = self._number // BATCH % self._options["topics"][self._topic]
        # Without a delay it is a record like any other, which this reader would also see of an aborted transaction.
        delay_ms = self._random.randrange(1, DELAY_MS_MAX)
        self._number += 1
        invoked = self._recorder.invoke(
            "schedule",
            topic=self._topic,
            partition=partition,
            value=value,
            delay_ms=delay_ms,
            transaction=transaction,
        )
        headers: Any = {"headwater-delay-ms": str(delay_ms), "headwater-schedule-id": value}
        self._producer.produce(
            self._topic, value, partition=partition, headers=headers, on_delivery=partial(told, invoked)
        )

    def _cancel(self, value: str) -> None:
        invoked = self._recorder.invoke("cancel", topic=self._topic, value=value)
        try:
            with Cluster(self._options["bootstrap_servers"]) as cluster:
                (altered,) = Schedule(cluster, self._topic).cancel(ScheduleId(value))
        except (HeadwaterError, OSError) as error:
            invoked.info(error=str(error))
            return
        _tell(invoked, altered.record_count, altered.refusal)

    def close(self) -> None:
        self._producer.flush(DELIVERY_TIMEOUT_MS / 1000)


def _tell(invoked: Invocation, count: int, error: object) -> None:
    if count:
        invoked.ok(count=count)
    else:
        invoked.fail(error=str(error))


class _TransactionalDelayer(_Delayer):
    def _new_producer(self) -> Producer:
        producer = Producer(
            connection(self._options)
            | {"transactional.id": self._options.get("transactional_id"), "message.timeout.ms": 20_000}
            | {"transaction.timeout.ms": 20_000}
        )
        # It ends what its predecessor left open.
        while True:
            try:
                producer.init_transactions(ATTEMPT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return producer

    def work(self) -> None:
        name = f"{self._name}/{self._number}"
        is_commit = bool(self._number // BATCH % ABORTS_EACH)
        try:
            self._producer.begin_transaction()
            for _ in range(BATCH):
                self._schedule(name)
            self._producer.flush(ATTEMPT_S)
        except KafkaException:
            self._producer = self._new_producer()
            return
        decided = self._recorder.invoke("decide", transaction=name, is_commit=is_commit)
        try:
            if is_commit:
                self._producer.commit_transaction(ATTEMPT_S)
            else:
                self._producer.abort_transaction(ATTEMPT_S)
        except KafkaException as error:
            decided.info(error=str(error))
            self._producer = self._new_producer()
        else:
            decided.ok()


def watch(options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
    """Reads a topic to its end again and again."""
    watcher = Watcher(recorder, options["topic"], options["topics"][options["topic"]])
    while not is_told_to_stop.is_set():
        # While the broker is away.
        with suppress(OSError), RawClient(Address(options["bootstrap_servers"])) as client:
            while not is_told_to_stop.is_set():
                watcher.look(client)
        time.sleep(PAUSE_S)


class Watcher:
    def __init__(self, recorder: Recorder, topic: str, partitions: int) -> None:
        self._recorder = recorder
        self._topic = topic
        self._positions = dict.fromkeys(range(partitions), 0)

    def look(self, client: RawClient) -> bool:
        """Whether anything was there."""
        has_moved = False
        for partition, offset in self._positions.items():
            invoked = self._recorder.invoke("appear", topic=self._topic, partition=partition, records=[])
            data = client.fetch(self._topic, offset, partition=partition, wait_ms=WAIT_MS, isolation_level=1)
            if data.error_code != ErrorCode.NONE:
                invoked.fail(error=data.error_code)
                continue
            found: list[tuple[int, str]] = []
            for header, batch in batches.iterate(data.records or b""):
                if not header.is_control:
                    records = batches.read_records(batch, header, BYTES_MAX)
                    found += [(each.offset, bytes(each.value or b"").decode()) for each in records]
                self._positions[partition] = max(self._positions[partition], header.next_offset)
                has_moved = True
            invoked.ok(records=[each for each in found if each[0] >= offset])
        return has_moved
