"""A member of a group, of either protocol: polls, commits its positions, and sometimes fetches the committed offsets.

Once in a while it commits a lower offset than before, which is allowed.
"""

import threading
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.faults.histories.clients.options import Options, consumer
from tests.faults.histories.recording import Recorder

POLL_S = 0.05
RECORDS_MAX = 500
ASKS_EACH = 5
GOES_BACK_EACH = 12


def run(options: Options, recorder: Recorder, is_told_to_stop: threading.Event) -> None:
    member = Member(options, recorder)
    while not is_told_to_stop.is_set():
        member.work()
    member.close()


class Member:
    def __init__(self, options: Options, recorder: Recorder) -> None:
        assert "group" in options
        assert "protocol" in options
        self._group, self._protocol = options["group"], options["protocol"]
        self._topic, self._name = options["topic"], options["name"]
        self._committed_only = options.get("committed_only", False)
        self._recorder = recorder
        self._owned: set[int] = set()
        self._positions: dict[int, int] = {}
        self._commits = 0
        self._consumer = Consumer(consumer(options))
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def work(self) -> None:
        messages = self._consumer.consume(RECORDS_MAX, POLL_S)
        if any((error := each.error()) is not None and error.fatal() for each in messages):
            raise SystemExit(str([each.error() for each in messages]))
        # The client may still hand out records fetched before a partition was given up.
        if records := [each for each in read(messages) if each[0] in self._owned]:
            self._recorder.note(
                "poll",
                group=self._group,
                member=self._name,
                generation=generation(self._consumer),
                topic=self._topic,
                committed_only=self._committed_only,
                records=records,
            )
            self._positions |= {partition: offset + 1 for partition, offset, _ in records}
        # Includes offsets whose last commit failed.
        if self._positions:
            self._commit()

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        self._owned |= {each.partition for each in partitions}
        self._recorder.note(
            "assign",
            group=self._group,
            protocol=self._protocol,
            member=self._name,
            generation=generation(self._consumer),
            topic=self._topic,
            partitions=[each.partition for each in partitions],
        )

    def _revoked(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._owned.discard(each.partition)
            self._positions.pop(each.partition, None)

    def _commit(self) -> None:
        self._commits += 1
        back = 1 if self._commits % GOES_BACK_EACH == 0 else 0
        offsets = {partition: position - back for partition, position in self._positions.items()}
        invoked = self._recorder.invoke(
            "commit",
            group=self._group,
            member=self._name,
            generation=generation(self._consumer),
            topic=self._topic,
            offsets=[*offsets.items()],
        )
        asked = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        try:
            committed = self._consumer.commit(offsets=asked, asynchronous=False) or []
        except KafkaException as error:
            # An earlier attempt than the refused one may have succeeded.
            invoked.info(error=error.args[0].name())
            return
        if errors := [each.error.name() for each in committed if each.error is not None]:
            invoked.info(error=errors)
            return
        invoked.ok(generation_after=generation(self._consumer))
        if not back:
            self._positions.clear()
        if self._commits % ASKS_EACH == 0:
            self._ask(asked)

    def _ask(self, partitions: Sequence[TopicPartition]) -> None:
        invoked = self._recorder.invoke("committed", group=self._group, topic=self._topic)
        try:
            found = self._consumer.committed([TopicPartition(self._topic, each.partition) for each in partitions], 10)
        except KafkaException as error:
            invoked.fail(error=error.args[0].name())
            return
        invoked.ok(offsets=[(each.partition, max(each.offset, -1)) for each in found if each.error is None])


def generation(member: Consumer) -> int:
    # Its text form: a magic of seven bytes and the generation as the machine stores it.
    metadata = member.consumer_group_metadata()
    return -1 if metadata is None else int.from_bytes(metadata[7:11], "little", signed=True)


def read(messages: Sequence[Message]) -> list[tuple[int, int, str]]:
    """Partition, offset and value of each record."""
    records: list[tuple[int, int, str]] = []
    for message in messages:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if message.error() is None and partition is not None and offset is not None and isinstance(value, bytes):
            records.append((partition, offset, value.decode()))
    return records
