"""Clients that keep a broker busy and survive its deaths. Each remembers the broker's promises to it.

A client works step by step. A step ends when all of its requests are acknowledged, after any number of retries, so
between two steps no outcome is unknown.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from tests.support.kafka.raw_client import Reachable
from tests.support.kafka.topic_contents import transactional_producer

# Long enough for a loaded machine; a test that waits this long has failed.
DEADLINE_S = 60
# How many partitions each topic has.
COUNTED = {"numbers": 2, "trimmed": 1, "compacted": 1}
LEDGER_PARTITIONS = 2
# Records of each transaction.
RECORDS_A_PARTITION = 2
KEYS = 10
# Every third transaction is aborted.
_ABORTED_EACH = 3
_NUMBERS_A_STEP = 60
_KEPT_AT_LEAST = 100
_TOPICS_KEPT = 2
_REQUEST_TIMEOUT_S = 2
_PADDING = b" " * 50
_TRANSACTION_TIMEOUT_MS = 600_000
_ABORT_TIMEOUT_S = 5
_ABORT_DEADLINE_S = 15


class Client(Protocol):
    def step(self) -> None: ...

    def close(self) -> None: ...


def connection(broker: Reachable) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 50,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 100,
        # The client would log errors about a broker that was killed on purpose.
        "log_level": 0,
    }


class Counting:
    """The n-th record of a topic goes to partition n modulo their number, so that its offset tells n."""

    def __init__(self, broker: Reachable) -> None:
        self.count = 0
        self.problems: list[str] = []
        self._producer = Producer(
            connection(broker)
            # Many small batches, several of them in flight.
            | {"enable.idempotence": True, "acks": "all", "linger.ms": 0, "batch.num.messages": 7}
        )

    def step(self) -> None:
        for number in range(self.count, self.count + _NUMBERS_A_STEP):
            for topic, partitions in COUNTED.items():
                self._producer.produce(
                    topic,
                    b"%d" % number + _PADDING,
                    key=b"%d" % (number % KEYS),
                    partition=number % partitions,
                    on_delivery=self._delivered,
                )
            self._producer.poll(0)
        assert self._producer.flush(DEADLINE_S) == 0, "there is no end to it"
        assert not self.problems, self.problems
        self.count += _NUMBERS_A_STEP

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        where = f"{message.topic()}-{message.partition()} at {message.offset()}"
        if error is not None:
            self.problems.append(f"{message.value()} for {where}: {error}")
        elif number_of(message) != number_at(message):
            self.problems.append(f"{message.value()} was acknowledged in {where}")

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(1)


def number_at(message: Message) -> int:
    """The number at this partition and offset of a counted topic."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return offset * COUNTED[topic] + partition


def number_of(message: Message) -> int:
    value = message.value()
    assert isinstance(value, bytes)
    return int(value)


class Committing:
    """The only member of a group that reads numbers and commits after each step how far it came."""

    group = "committing"

    def __init__(self, broker: Reachable) -> None:
        self.committed: dict[int, int] = {}
        self._consumer = Consumer(
            connection(broker)
            | {"group.id": self.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
            | {"fetch.wait.max.ms": 50}
        )
        self._consumer.subscribe(["numbers"])
        self._positions: dict[int, int] = {}

    def step(self) -> None:
        for message in self._consumer.consume(200, 0.1):
            if message.error() is None:
                self._take(message)
        if self._positions != self.committed:
            positions = dict(self._positions)
            where = [TopicPartition("numbers", partition, at) for partition, at in positions.items()]
            _persist(lambda: self._consumer.commit(offsets=where, asynchronous=False))
            self.committed = positions

    def _take(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        assert number_of(message) == number_at(message), f"{message.value()} is read at {offset} of {partition}"
        assert offset == self._positions.get(partition, 0), f"{offset} of {partition} is read out of turn"
        self._positions[partition] = offset + 1

    def close(self) -> None:
        self._consumer.close()


class Transacting:
    """Transaction n writes n to all partitions of the ledger, and commits n as the offset of a group."""

    group = "transacting"

    def __init__(self, broker: Reachable) -> None:
        self.outcomes: list[bool] = []
        self._broker = broker
        self._producer = self._new_producer()
        self._consumer = Consumer(connection(broker) | {"group.id": self.group})

    def step(self) -> None:
        number = len(self.outcomes)
        try:
            self._producer.begin_transaction()
            for _ in range(RECORDS_A_PARTITION):
                for partition in range(LEDGER_PARTITIONS):
                    self._producer.produce("ledger", b"%d" % number, key=b"key", partition=partition)
            where = [TopicPartition("ledger", 0, number)]
            metadata = self._consumer.consumer_group_metadata()
            _persist(lambda: self._producer.send_offsets_to_transaction(where, metadata, DEADLINE_S))
            if number % _ABORTED_EACH:
                _persist(self._producer.commit_transaction)
                self.outcomes.append(True)
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        self._abort()
        self.outcomes.append(False)

    def _new_producer(self) -> Producer:
        # A transaction must not time out even if the machine stalls for a minute.
        return transactional_producer(
            self._broker, "transacting", retry_backoff_ms=10, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )

    def _abort(self) -> None:
        """When a broker goes away just before, librdkafka 2.16 may stay in its state BeginAbort for good, with every
        answer received and nothing asked; or it ends a transaction that the broker has never heard of, which Kafka
        refuses too. A successor then aborts whatever there is by taking over its id."""
        try:
            _persist(lambda: self._producer.abort_transaction(_ABORT_TIMEOUT_S), deadline_s=_ABORT_DEADLINE_S)
        except KafkaException as error:
            if error.args[0].code() not in {KafkaError._TIMED_OUT, KafkaError.INVALID_TXN_STATE}:
                raise
            self._producer = self._new_producer()

    def close(self) -> None:
        self._consumer.close()


class Administering:
    """Creates and deletes topics, and deletes records of the trimmed topic."""

    def __init__(self, broker: Reachable, counting: Counting) -> None:
        self.topics: list[str] = []
        self.deleted_before = 0
        self._counting = counting
        self._created = 0
        self._broker = broker
        self._admin = AdminClient(connection(broker))

    def step(self) -> None:
        name = f"brief-{self._created}"
        self._ask(
            lambda: self._admin.create_topics([NewTopic(name, 1, 1)], request_timeout=_REQUEST_TIMEOUT_S),
            KafkaError.TOPIC_ALREADY_EXISTS,
        )
        self._created += 1
        self.topics.append(name)
        if len(self.topics) > _TOPICS_KEPT:
            gone = self.topics[0]
            self._ask(
                lambda: self._admin.delete_topics([gone], request_timeout=_REQUEST_TIMEOUT_S),
                KafkaError.UNKNOWN_TOPIC_OR_PART,
            )
            del self.topics[0]
        before = self._counting.count - _KEPT_AT_LEAST
        if before > self.deleted_before:
            where = TopicPartition("trimmed", 0, before)
            self._ask(lambda: self._admin.delete_records([where], request_timeout=_REQUEST_TIMEOUT_S))
            self.deleted_before = before

    def _ask(self, ask: Callable[[], dict[Any, Any]], done: int = KafkaError.NO_ERROR) -> None:
        """A request that is repeated because its first response was lost may fail with `done`."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                for future in ask().values():
                    future.result()
            except KafkaException as error:
                if error.args[0].code() == done:
                    return
                if time.monotonic() > deadline:
                    raise
                if error.args[0].code() == KafkaError._NOENT:
                    # librdkafka takes a partition that once had no leader for one that has none until it asks again by
                    # itself, minutes later.
                    self._admin = AdminClient(connection(self._broker))
                self._admin.poll(0.05)
            else:
                return

    def close(self) -> None:
        pass


def _persist(attempt: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            attempt()
        except KafkaException as error:
            problem: KafkaError = error.args[0]
            is_passing = problem.retriable() or problem.code() in _PASSING
            if not is_passing or problem.txn_requires_abort() or time.monotonic() > deadline:
                raise
        else:
            return


# Errors of librdkafka for an unreachable broker that it does not mark as retriable.
_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


class Loads:
    """All clients, each in a thread of its own."""

    def __init__(self, broker: Reachable) -> None:
        self.counting = Counting(broker)
        self.transacting = Transacting(broker)
        self.committing = Committing(broker)
        self.administering = Administering(broker, self.counting)
        self._clients: Sequence[Client] = (self.counting, self.transacting, self.committing, self.administering)
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._failures: list[BaseException] = []

    def run(self) -> None:
        self._stop.clear()
        self._threads = [threading.Thread(target=self._run, args=(client,)) for client in self._clients]
        for thread in self._threads:
            thread.start()

    def _run(self, client: Client) -> None:
        try:
            client.step()
            while not self._stop.is_set():
                client.step()
        except BaseException as failure:
            self._failures.append(failure)

    def settle(self) -> None:
        """Wait until each client has ended its step; raises the first error of a client."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads = []
        if self._failures:
            raise self._failures[0]

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for client in self._clients:
            client.close()
