"""Puts dead letters back, each exactly once, also if it is killed at any point and begun again.

A step is one transaction: records for their topics, and an entry of the journal that says so. The transactional id is
that of the dead-letter topic, so a second redrive takes over from one that hangs. It reads the journal after that, when
no transaction of the first can be open any more.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from headwater.client.cluster import Cluster, TopicDescription
from headwater.client.dead_letters.journal import RedriveJournal, Redriven
from headwater.client.dead_letters.letter import DeadLetter, mark_of
from headwater.client.errors import Refused, UnknownTopic
from headwater.client.transactions.transactional_producer import ProducerFenced, TransactionalProducer
from headwater.errors import ConfigError, ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.partitioner import partition_for_key

TRANSACTIONAL_ID_PREFIX = "headwater-redrive:"
# Of one transaction. A letter that is larger has one for itself.
STEP_LETTERS_MAX = 500
STEP_BYTES_MAX = 4 << 20
# So many records are looked at before a step says so, although none of them was chosen.
STEP_RECORDS_MAX = 10_000
# The end of the year 9999.
TIMESTAMP_MS_MAX = 253_402_300_799_999

# Refusals that concern a record and not the topic: others may be written all the same.
_OF_A_RECORD = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP, ErrorCode.POLICY_VIOLATION}
)

# Letters, and None for each record that was read and is not to be put back.
Chosen = Iterator[DeadLetter | None]


class Skipped(NamedTuple):
    """A letter that cannot be put back, and why."""

    letter: DeadLetter
    reason: str


class RedriveStep(NamedTuple):
    """What happened since the step before: how many records were looked at, how many of them were put back, and how
    many of those chosen had been put back earlier."""

    scanned_count: int
    redriven_count: int
    already_count: int
    skipped: tuple[Skipped, ...]


class Redriver:
    def __init__(
        self,
        cluster: Cluster,
        topic: TopicDescription,
        *,
        to: str | None,
        keeps_timestamps: bool,
        per_second_max: int | None,
        is_trial: bool,
    ) -> None:
        if to == topic.name:
            raise ConfigError(f"letters of topic '{to}' cannot be put back into it: they would be there twice")
        if per_second_max is not None and per_second_max < 1:
            raise ConfigError(f"{per_second_max} letters a second are too few")
        self._cluster = cluster
        self._to = None if to is None else TopicName(to)
        self._keeps_timestamps = keeps_timestamps
        self._per_second_max = per_second_max
        self._is_trial = is_trial
        self._journal = RedriveJournal(cluster, topic)
        self._transactional_id = f"{TRANSACTIONAL_ID_PREFIX}{topic.name}"
        self._producer: TransactionalProducer | None = None
        self._has_journal = False
        self._letters_max = min(STEP_LETTERS_MAX, per_second_max or STEP_LETTERS_MAX)
        self._partition_counts: dict[str, int | str] = {}
        if self._to is not None:
            count = self._partition_count(self._to)
            if isinstance(count, str):
                raise UnknownTopic(count)

    def steps(self, choose: Callable[[Redriven], Chosen]) -> Iterator[RedriveStep]:
        """`choose` is given what was put back already."""
        if self._is_trial:
            redriven = self._journal.read()
        else:
            # From here on an earlier redrive is fenced, and what it left open is over.
            self._producer = TransactionalProducer(self._cluster, self._transactional_id, create_topics=False)
            redriven = self._journal.read(is_whole=True)
        step = _Step()
        for letter in choose(redriven):
            step.scanned_count += 1
            if letter is not None:
                if step.is_full_with(letter, self._letters_max):
                    yield self._done(step)
                    step = _Step(scanned_count=1)
                self._add(step, letter)
            elif step.scanned_count >= STEP_RECORDS_MAX:
                yield self._done(step)
                step = _Step()
        yield self._done(step)
        if self._producer is not None and self._has_journal:
            # The redrive that took over meanwhile waits for the same.
            with suppress(ProducerFenced):
                self._producer.settle()

    def _add(self, step: "_Step", letter: DeadLetter) -> None:
        if letter.is_redriven:
            step.already_count += 1
        elif not letter.origin.is_copied:
            step.skipped.append(
                Skipped(letter, "its content is not in the dead-letter topic (headwater-dlq-content: omitted)")
            )
        else:
            where = self._destination(letter)
            if isinstance(where, str):
                step.skipped.append(Skipped(letter, where))
            else:
                step.put(letter, where)

    def _destination(self, letter: DeadLetter) -> TopicPartition | str:
        """Where to, or why not."""
        origin = letter.origin
        topic = self._to or TopicName(origin.topic)
        if topic == letter.topic:
            return "it comes from this topic itself"
        count = self._partition_count(topic)
        if isinstance(count, str):
            return f"{count}; put it into another topic"
        if self._to is None and origin.partition < count:
            return TopicPartition(topic, origin.partition)
        if letter.key is not None:
            return TopicPartition(topic, partition_for_key(letter.key, count))
        return TopicPartition(topic, origin.partition % count)

    def _partition_count(self, topic: str) -> int | str:
        known = self._partition_counts.get(topic)
        if known is None:
            known = self._partition_counts[topic] = self._ask_partition_count(topic)
        return known

    def _ask_partition_count(self, topic: str) -> int | str:
        try:
            found = self._cluster.topics([topic])
        except Refused as refusal:
            if refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return f"topic '{topic}' does not exist"
            if refusal.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                return "the name of its topic is not allowed"
            raise
        if not found or found[0].is_internal:
            return f"topic '{topic}' is an internal topic"
        return len(found[0].partitions)

    # -- transactions

    def _done(self, step: "_Step") -> RedriveStep:
        redriven_count = len(step.chosen)
        if step.chosen and not self._is_trial:
            began_ms = self._cluster.clock.monotonic_ms()
            if not self._has_journal:
                self._journal.create()
                self._has_journal = True
            refused = self._put_back(step.chosen)
            step.skipped += refused
            redriven_count -= len(refused)
            self._slow_down(began_ms, len(step.chosen))
        return RedriveStep(step.scanned_count, redriven_count, step.already_count, tuple(step.skipped))

    def _put_back(self, chosen: "Sequence[_Addressed]") -> list[Skipped]:
        """Return the letters that the broker refuses. They must not keep the others from being put back."""
        try:
            self._commit(chosen)
        except Refused as refusal:
            if refusal.code not in _OF_A_RECORD:
                raise
            if len(chosen) == 1:
                return [Skipped(chosen[0].letter, str(refusal))]
            half = len(chosen) // 2
            return self._put_back(chosen[:half]) + self._put_back(chosen[half:])
        return []

    def _commit(self, chosen: "Sequence[_Addressed]") -> None:
        assert self._producer is not None, "a trial commits nothing"
        with self._producer.transaction() as transaction:
            for letter, where in chosen:
                transaction.send(
                    where.topic,
                    letter.value,
                    key=letter.key,
                    headers=(*letter.headers, mark_of(letter)),
                    partition=where.partition,
                    timestamp_ms=self._timestamp_ms(letter),
                )
            for entry in self._journal.entry(letter.place for letter, _ in chosen):
                transaction.send(
                    self._journal.name, entry.value, key=entry.key, partition=self._journal.partition.partition
                )

    def _timestamp_ms(self, letter: DeadLetter) -> int:
        known_ms = letter.origin.timestamp_ms
        # What a header says may be anything.
        if self._keeps_timestamps and known_ms is not None and known_ms <= TIMESTAMP_MS_MAX:
            return known_ms
        return self._cluster.clock.now_ms()

    def _slow_down(self, began_ms: int, count: int) -> None:
        if self._per_second_max is not None:
            left_ms = began_ms + count * 1000 // self._per_second_max - self._cluster.clock.monotonic_ms()
            if left_ms > 0:
                self._cluster.sleep(left_ms / 1000)


class _Addressed(NamedTuple):
    letter: DeadLetter
    where: TopicPartition


class _Step:
    __slots__ = ("_size", "already_count", "chosen", "scanned_count", "skipped")

    def __init__(self, scanned_count: int = 0) -> None:
        self.scanned_count = scanned_count
        self.already_count = 0
        self.chosen: list[_Addressed] = []
        self.skipped: list[Skipped] = []
        self._size = 0

    def is_full_with(self, letter: DeadLetter, letters_max: int) -> bool:
        if len(self.chosen) + len(self.skipped) >= letters_max:
            return True
        return bool(self.chosen) and self._size + letter.size > STEP_BYTES_MAX

    def put(self, letter: DeadLetter, where: TopicPartition) -> None:
        self.chosen.append(_Addressed(letter, where))
        self._size += letter.size
