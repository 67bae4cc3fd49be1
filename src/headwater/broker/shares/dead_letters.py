"""Copies records that share groups gave up to their dead-letter topics, each exactly once.

A share-partition's outbox (`coordination/shares/outbox.py`) says what is to be copied, in which order, and as which
producer. One task per share-partition does it while letters wait:

1. It asks the target partition for the last sequence of that producer. Letters up to there are copied: they leave the
   outbox. That is the whole recovery, after a crash of the broker as after the loss of an answer.
2. It makes sure that the target is the one that the group wants now, and that the log of the outbox knows it.
3. It reads the next records, appends their copies as one batch, waits until that is on disk, and begins again.

A dead-letter topic that cannot be written keeps its letters waiting, and nobody else: the share-partition goes on.
"""

# Lazy annotations: the coordinator makes the writer.
from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headwater.broker.audit.audit_log import AuditLog
from headwater.broker.audit.event import EventType
from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.catalog.producer_ids import ProducerIds
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.broker.shares.letter_source import SourceRecord, Sources, codec_of, read_records
from headwater.broker.topics import Topics
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.clock import Clock
from headwater.coordination.catalog.events import Topic
from headwater.coordination.catalog.machine import CatalogMachine
from headwater.coordination.decisions import Decision
from headwater.coordination.shares.machine import ShareMachine
from headwater.coordination.shares.outbox import Letters, LetterTarget, Outbox, sequence_of
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.batches.dead_letter_headers import DeadLetterOrigin
from headwater.protocol.batches.records import Record

if TYPE_CHECKING:
    from headwater.broker.shares.coordinator import ShareCoordinator

logger = logging.getLogger(__name__)

DEFAULT_SUFFIX = ".dlq"
GROUP_ENABLE = "errors.deadletterqueue.group.enable"
# So many letters are one batch at most.
BATCH_LETTERS_MAX = 500
# Room for the headers of a dead letter beside its record, in topics that are created here.
HEADERS_BYTES = 64 << 10
RETRY_PAUSE_S = 0.2
RETRY_PAUSE_S_MAX = 30.0
_INT32_MAX = (1 << 31) - 1


class _Letter(NamedTuple):
    """One record of a run of letters."""

    offset: int
    letters: Letters


class _Copies(NamedTuple):
    """The batch that holds the copies of so many letters."""

    batch: bytearray
    letter_count: int


class DeadLetterWriter:
    def __init__(
        self,
        shares: ShareCoordinator,
        topics: Topics,
        partitions: HostedPartitions,
        catalog: CatalogMachine,
        config: EffectiveConfig,
        producer_ids: ProducerIds,
        audit: AuditLog | None,
        clock: Clock,
    ) -> None:
        self._shares = shares
        self._partitions = partitions
        self._catalog = catalog
        self._config = config
        self._producer_ids = producer_ids
        self._topics = topics
        self._audit = audit
        self._measurements = shares.measurements
        self._clock = clock
        self._tasks: dict[SharePartitionId, asyncio.Task[None]] = {}

    def start(self, share_id: SharePartitionId) -> None:
        """Letters of the share-partition wait."""
        if share_id not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._write_all(share_id), name="write dead letters")
            self._tasks[share_id] = task

    async def stop(self) -> None:
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_all(self, share_id: SharePartitionId) -> None:
        pause_s = RETRY_PAUSE_S
        try:
            while (share := self._shares.find(share_id)) is not None and share.outbox.size:
                try:
                    await self._write_some(share)
                    pause_s = RETRY_PAUSE_S
                    continue
                except (HeadwaterError, OSError) as error:
                    logger.error(
                        "%d dead letters of share group %r wait and are tried again in %.1f s: %s",
                        share.outbox.size,
                        share_id.group_id,
                        pause_s,
                        error,
                    )
                except Exception:
                    logger.exception("dead letters of share group %r wait and are tried again", share_id.group_id)
                self._measurements.letters_failed.value += 1
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_PAUSE_S_MAX)
        finally:
            del self._tasks[share_id]

    async def _write_some(self, share: SharePartition) -> None:
        """One step; the caller looks at the outbox again after it."""
        topic = self._catalog.by_id.get(share.id.topic_id)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "the topic of the records is being deleted")
        outbox = share.outbox
        known = self._known_target(outbox)
        last_sequence = -1 if known is None else self._last_sequence(known, outbox)
        written_before = outbox.unwritten_before(last_sequence)
        if await self._done(share, written_before):
            return
        name = self._config.of_group(share.id.group_id).errors_deadletterqueue_topic_name or topic.name + DEFAULT_SUFFIX
        if name == topic.name:
            # Its own dead letters would come back to the group for ever.
            self._discard(share, f"'{name}' cannot be its own dead-letter topic")
            await self._done(share, outbox.next_number, is_written=False)
            return
        target = await self._target(TopicName(name), topic, share.id.partition)
        is_next = last_sequence < 0 or sequence_of(last_sequence + 1) == sequence_of(written_before)
        if known is not target or not is_next:
            await self._use_target(share, target)
            return
        await self._append(share, topic, target)

    # -- what is known

    def _known_target(self, outbox: Outbox) -> Partition | None:
        """Where copies may be; None if there are none yet, or their topic is gone."""
        if outbox.target is None:
            return None
        topic = self._catalog.by_id.get(outbox.target.topic_id)
        if topic is None:
            return None
        return self._partitions.find(TopicPartition(topic.name, outbox.target.partition))

    def _last_sequence(self, partition: Partition, outbox: Outbox) -> int:
        assert outbox.target is not None
        # What a partition has that is out of service is known at its next start.
        partition.check_online()
        producer = partition.producer(outbox.target.producer_id)
        if producer is None:
            return -1
        if producer.last_offset >= partition.high_watermark:
            raise Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, f"{partition.id} is not on disk yet")
        return producer.last_sequence

    async def _done(self, share: SharePartition, before: int, *, is_written: bool = True) -> bool:
        """Take letters out of the outbox. False if there are none before that number."""
        done = [each for each in share.outbox.letters if each.number < before]
        if not done:
            return False
        outcome = await self._submit(
            share, lambda machine: machine.decide_letters_written(share.id, share.state_epoch, before)
        ).wait()
        if isinstance(outcome, HeadwaterError):
            raise outcome
        for each in done if is_written else ():
            size = min(each.size, before - each.number)
            self._measurements.count_letters(share.id.group_id, each.reason.label, size)
        return True

    def _submit(
        self, share: SharePartition, decide: Callable[[ShareMachine], Decision[None]]
    ) -> Pending[Outcome[None]]:
        return self._shares.submit(share.id.coordinator_key, lambda machine, _ticket, _now: decide(machine))

    def _discard(self, share: SharePartition, reason: str) -> None:
        size = share.outbox.size
        logger.error("%d dead letters of share group %r are dropped: %s", size, share.id.group_id, reason)
        self._measurements.letters_dropped.value += size

    # -- the target

    async def _target(self, name: TopicName, source: Topic, index: int) -> Partition:
        """The partition for the letters of partition `index`. Raises what an operator has to change."""
        settings = self._config.live.current
        prefix = settings.errors_deadletterqueue_topic_name_prefix
        if not name.startswith(prefix) and name != source.name + DEFAULT_SUFFIX:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"dead-letter topic '{name}' must begin with '{prefix}' (errors.deadletterqueue.topic.name.prefix)",
            )
        topic = self._catalog.by_name.get(name)
        if topic is None:
            if not settings.errors_deadletterqueue_auto_create_topics_enable:
                raise Refusal(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"dead-letter topic '{name}' does not exist: create it with {GROUP_ENABLE}=true, or set "
                    "errors.deadletterqueue.auto.create.topics.enable=true",
                )
            size_max = min(self._config.of_topic(source).max_message_bytes + HEADERS_BYTES, _INT32_MAX)
            topic = await self._topics.create(name, {GROUP_ENABLE: "true", "max.message.bytes": str(size_max)})
            if self._audit is not None:
                self._audit.record_local(EventType.TOPIC_CREATE, f"topic:{name}", {"by": "dead letters"})
        elif not self._config.of_topic(topic).errors_deadletterqueue_group_enable:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION, f"topic '{name}' takes no dead letters: set {GROUP_ENABLE}=true on it"
            )
        partition = self._partitions.find(TopicPartition(name, index % topic.partition_count))
        if partition is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"dead-letter topic '{name}' is not here yet")
        return partition

    async def _use_target(self, share: SharePartition, partition: Partition) -> None:
        topic = self._catalog.by_name[partition.id.topic]
        target = LetterTarget(topic.id, partition.id.partition, await self._producer_ids.next())
        outcome = await self._submit(
            share, lambda machine: machine.decide_letter_target(share.id, share.state_epoch, target)
        ).wait()
        if isinstance(outcome, HeadwaterError):
            raise outcome

    # -- the copies

    async def _append(self, share: SharePartition, topic: Topic, target: Partition) -> None:
        outbox = share.outbox
        assert outbox.target is not None
        letters = _next(outbox)
        number = letters[0].letters.number + letters[0].offset - letters[0].letters.first
        source = self._partitions.find(TopicPartition(topic.name, share.id.partition))
        if source is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"'{topic.name}' is not here")
        decompressed_max = self._config.live.current.headwater_batch_decompressed_bytes_max
        sources = await read_records(source, [each.offset for each in letters], decompressed_max)
        # As many as were read.
        letters = letters[: next((at for at, each in enumerate(letters) if each.offset not in sources), len(letters))]
        if not self._config.of_group(share.id.group_id).errors_deadletterqueue_copy_record_enable:
            sources.records.clear()
        compose = partial(_compose, TopicPartition(topic.name, share.id.partition), share.id.group_id)
        copies = await asyncio.get_running_loop().run_in_executor(
            None,
            partial(
                _build,
                compose,
                letters,
                sources,
                self._clock.now_ms(),
                target,
                outbox.target.producer_id,
                sequence_of(number),
            ),
        )
        written: Pending[Append] = Pending()
        append = Append(written.resolve)
        now_ms = self._clock.now_ms()
        batch = memoryview(copies.batch)
        if target.config.is_log_append_time:
            batches.set_log_append_time(batch, now_ms)
        target.stage(batches.read_header(batch), batch, append, acks=ACKS_ALL, now_ms=now_ms)
        await written.wait()
        if append.error is not None:
            raise append.error
        current = self._shares.find(share.id)
        # Its log may have been loaded again meanwhile; if the group has begun again, there is nothing to be said.
        if current is not None and current.outbox.target == outbox.target:
            await self._done(current, number + copies.letter_count)


def _next(outbox: Outbox) -> list[_Letter]:
    """The letters to copy next, numbered without a gap."""
    found: list[_Letter] = []
    due: int | None = None
    for letters in outbox.letters:
        if due is not None and letters.number != due:
            break
        due = letters.number + letters.size
        found += [_Letter(each, letters) for each in range(letters.first, letters.last + 1)[:BATCH_LETTERS_MAX]]
        if len(found) >= BATCH_LETTERS_MAX:
            break
    return found[:BATCH_LETTERS_MAX]


def _compose(
    where: TopicPartition, group: str, letter: _Letter, source: SourceRecord | None, index: int, now_ms: int
) -> Record:
    record = None if source is None else source.record
    _, _, _, count, reason, time_ms = letter.letters
    origin = DeadLetterOrigin(
        where.topic,
        where.partition,
        letter.offset,
        group,
        count,
        reason,
        time_ms,
        None if record is None else record.timestamp,
        record is not None,
    )
    headers = dead_letter_headers.written(origin)
    if record is None:
        return Record(index, now_ms, None, None, headers)
    return Record(index, now_ms, record.key, record.value, (*record.headers, *headers))


def _build(
    compose: Callable[[_Letter, SourceRecord | None, int, int], Record],
    letters: Sequence[_Letter],
    sources: Sources,
    now_ms: int,
    target: Partition,
    producer_id: int,
    base_sequence: int,
) -> _Copies:
    """The copies of the first letters, as many as the topic takes in one batch; in a thread. A record that is too large
    even alone is left out, and its dead letter says so. Where there is no record, no letter is written, and its
    sequence is taken all the same."""
    config = target.config
    found = [sources.records.get(each.offset) for each in letters]
    count = len(letters)
    while True:
        chosen = list(zip(letters[:count], found[:count], strict=True))
        records = [
            compose(letter, source, index, now_ms)
            for index, (letter, source) in enumerate(chosen)
            if letter.offset not in sources.gaps
        ]
        if config.is_compacted and any(record.key is None for record in records):
            raise Refusal(
                ErrorCode.INVALID_RECORD,
                f"dead-letter topic '{target.id.topic}' is compacted and takes no record without a key: set "
                "cleanup.policy=delete on it",
            )
        codec = config.stored_codec
        batch = batches.build(
            records,
            last_offset_delta=count - 1,
            codec=codec_of(found[:count]) if codec is None else codec,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=base_sequence,
        )
        if len(batch) <= config.max_message_bytes:
            return _Copies(batch, count)
        if count > 1:
            count = max(count // 2, 1)
        elif found[0] is not None:
            found[0] = None
        else:
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"dead-letter topic '{target.id.topic}' takes {config.max_message_bytes} bytes, too few for any dead "
                "letter (max.message.bytes)",
            )
