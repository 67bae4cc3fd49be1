"""Copies records between topics exactly once, in a process of its own: consume, produce and commit in one transaction.

Started as `python -m tests.support.transactions.copier '<options as JSON>'`. It writes one line of JSON for each step,
and is gone when whoever started it is. Each copy has the key of its original and the name of its transaction as value.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

POLL_S = 0.1
RECORDS_MAX = 500
# One in so many transactions it aborts of its own will.
ABORTS_EACH = 8


class Options(TypedDict):
    name: str
    bootstrap_servers: str
    source: str
    target: str
    consumer: Mapping[str, str | int]
    transactional_id: str
    transaction_timeout_ms: int
    # Whether it waits, amid its first transaction, for a line.
    halts: bool


class Copier:
    def __init__(self, options: Options, may_go_on: threading.Event) -> None:
        self._options = options
        self._may_go_on = may_go_on
        self._transactions = 0
        self._is_rebalanced = False
        # The next that is read may not be the next that must be copied.
        self._is_astray = False
        connection: dict[str, Any] = {
            "bootstrap.servers": options["bootstrap_servers"],
            "client.id": options["name"],
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            # A broker that comes back has the address that it had.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        self._producer = Producer(
            {
                **connection,
                "transactional.id": options["transactional_id"],
                "transaction.timeout.ms": options["transaction_timeout_ms"],
            }
        )
        self._consumer = Consumer(
            {
                **connection,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                **options["consumer"],
            }
        )

    def run(self) -> None:
        _persist(self._producer.init_transactions)
        self._consumer.subscribe(
            [self._options["source"]],
            on_assign=self._rebalanced,
            on_revoke=self._rebalanced,
            on_lost=self._rebalanced,
        )
        while True:
            messages = self._read()
            if not messages:
                _write("idle")
                continue
            try:
                self._copy(messages)
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                _persist(self._producer.abort_transaction)
                _write("failed", self._transaction, error.args[0].name())
                self._is_astray = True

    @property
    def _transaction(self) -> str:
        return f"{self._options['name']}-{self._transactions}"

    def _rebalanced(self, *_: object) -> None:
        self._is_rebalanced = True

    def _read(self) -> Sequence[Message]:
        self._is_rebalanced = False
        messages = self._consumer.consume(RECORDS_MAX, POLL_S)
        if self._is_rebalanced:
            # Some of these may be of a partition that is another's now.
            self._is_astray = True
        if self._is_astray:
            self._is_astray = not self._go_back()
            return []
        return [message for message in messages if message.error() is None]

    def _go_back(self) -> bool:
        """To where the last transaction that was committed ended. What cannot be done now will be tried again."""
        try:
            for each in self._consumer.committed(self._consumer.assignment(), timeout=5):
                self._consumer.seek(each if each.offset >= 0 else TopicPartition(each.topic, each.partition, 0))
        except KafkaException:
            return False
        return True

    def _copy(self, messages: Sequence[Message]) -> None:
        self._transactions += 1
        self._producer.begin_transaction()
        _write("begun", self._transaction, len(messages))
        middle = len(messages) // 2
        self._produce(messages[:middle])
        self._producer.flush()
        _write("halfway", self._transaction)
        if self._options["halts"]:
            self._may_go_on.wait()
        self._produce(messages[middle:])
        ends = {_known(message.partition()): _known(message.offset()) + 1 for message in messages}
        positions = [TopicPartition(self._options["source"], partition, end) for partition, end in ends.items()]
        metadata = self._consumer.consumer_group_metadata()
        _persist(lambda: self._producer.send_offsets_to_transaction(positions, metadata))
        _write("sent", self._transaction)
        if self._transactions % ABORTS_EACH == 0:
            _write("aborting", self._transaction)
            _persist(self._producer.abort_transaction)
            self._is_astray = True
        else:
            _persist(self._producer.commit_transaction)
            _write("committed", self._transaction)

    def _produce(self, messages: Sequence[Message]) -> None:
        value = self._transaction.encode()
        for message in messages:
            self._producer.produce(
                self._options["target"], value, key=message.key(), partition=_known(message.partition())
            )


def _known(number: int | None) -> int:
    assert number is not None, "a message that was read has its place"
    return number


def _persist(attempt: Callable[[], object]) -> None:
    while True:
        try:
            attempt()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


def _write(step: str, *fields: object) -> None:
    sys.stdout.write(json.dumps([step, *fields]) + "\n")
    sys.stdout.flush()


def main() -> None:
    may_go_on = threading.Event()

    def listen() -> None:
        while sys.stdin.readline():
            may_go_on.set()
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    try:
        Copier(json.loads(sys.argv[1]), may_go_on).run()
    except KafkaException as error:
        _write("ended", "", error.args[0].name())
        # Nothing is left to be said to the broker.
        os._exit(0)


if __name__ == "__main__":
    main()
