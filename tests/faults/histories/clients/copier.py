"""Consumes, transforms and produces in transactions with its offsets; it aborts some of them on purpose."""

import threading
from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.faults.histories.clients.member import generation, read
from tests.faults.histories.clients.options import Options, connection, consumer
from tests.faults.histories.clients.producer import told
from tests.faults.histories.recording import Recorder

POLL_S = 0.1
RECORDS_MAX = 60
ABORTS_EACH = 5
ATTEMPT_S = 5.0
COMMITTED_TIMEOUT_S = 5.0

Records = Sequence[tuple[int, int, str]]


def run(options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
    copier = Copier(options, recorder)
    while not is_told_to_stop.is_set():
        copier.work()
    copier.close()


class Copier:
    def __init__(self, options: Options, recorder: Recorder) -> None:
        assert "transactional_id" in options
        assert "group" in options
        assert "protocol" in options
        assert "target" in options
        self._options, self._recorder = options, recorder
        self._group, self._protocol = options["group"], options["protocol"]
        self._source, self._target = options["topic"], options["target"]
        self._transactions = 0
        self._is_rebalanced = False
        # The next record read may not be the next one to copy.
        self._is_astray = False
        self._producer = Producer(connection(options) | {"transactional.id": options["transactional_id"]})
        self._consumer = Consumer(consumer(options))
        _persist(self._producer.init_transactions)
        self._consumer.subscribe(
            [self._source], on_assign=self._assigned, on_revoke=self._rebalanced, on_lost=self._rebalanced
        )

    def work(self) -> None:
        records = self._read()
        if not records:
            return
        self._transactions += 1
        name = f"{self._options['name']}/{self._transactions}"
        try:
            self._copy(name, records)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            self._end(name, [], is_commit=False)
            self._is_astray = True

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        self._recorder.note(
            "assign",
            group=self._group,
            protocol=self._protocol,
            member=self._options["name"],
            generation=generation(self._consumer),
            topic=self._source,
            partitions=[each.partition for each in partitions],
        )
        self._is_rebalanced = True

    def _rebalanced(self, *_: object) -> None:
        self._is_rebalanced = True

    def _read(self) -> Records:
        self._is_rebalanced = False
        records = read(self._consumer.consume(RECORDS_MAX, POLL_S))
        # Some of these records may belong to a partition that another copier owns now.
        self._is_astray |= self._is_rebalanced
        if self._is_astray:
            self._is_astray = not self._go_back()
            return []
        if records:
            self._recorder.note(
                "poll",
                group=self._group,
                member=self._options["name"],
                generation=generation(self._consumer),
                topic=self._source,
                committed_only=True,
                records=records,
            )
        return records

    def _go_back(self) -> bool:
        """Seek back to the end of the last committed transaction. A failed attempt is repeated later."""
        try:
            committed = self._consumer.committed(self._consumer.assignment(), timeout=COMMITTED_TIMEOUT_S)
            self._recorder.note("seek", topic=self._source, partitions=[each.partition for each in committed])
            for each in committed:
                self._consumer.seek(each if each.offset >= 0 else TopicPartition(each.topic, each.partition, 0))
        except KafkaException:
            return False
        return True

    def _copy(self, name: str, records: Records) -> None:
        self._producer.begin_transaction()
        for number, (partition, offset, value) in enumerate(records):
            # Each transaction writes to several partitions.
            index, copy = offset % self._options["topics"][self._target], f"{name}/{number} of {value}"
            sent = self._recorder.invoke(
                "send",
                topic=self._target,
                partition=index,
                key=value,
                value=copy,
                transaction=name,
                source=[self._source, partition, offset],
            )
            self._producer.produce(self._target, copy, key=value, partition=index, on_delivery=partial(told, sent))
        ends = {partition: offset + 1 for partition, offset, _ in records}
        positions = [TopicPartition(self._source, partition, end) for partition, end in ends.items()]
        metadata = self._consumer.consumer_group_metadata()
        _persist(lambda: self._producer.send_offsets_to_transaction(positions, metadata, ATTEMPT_S))
        is_commit = self._transactions % ABORTS_EACH != 0
        if not is_commit:
            # The records are on the broker before the transaction is aborted.
            self._producer.flush()
            self._is_astray = True
        self._end(name, [(self._source, *each) for each in ends.items()], is_commit=is_commit)

    def _end(self, name: str, offsets: Sequence[tuple[str, int, int]], *, is_commit: bool) -> None:
        ended = self._recorder.invoke("end", transaction=name, is_commit=is_commit, group=self._group, offsets=offsets)
        end = self._producer.commit_transaction if is_commit else self._producer.abort_transaction
        try:
            _persist(lambda: end(ATTEMPT_S))
        except KafkaException as error:
            ended.info(error=error.args[0].name())
            raise
        ended.ok()


def _persist(attempt: Callable[[], object]) -> None:
    while True:
        try:
            attempt()
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() != KafkaError._TIMED_OUT:
                raise
        else:
            return
