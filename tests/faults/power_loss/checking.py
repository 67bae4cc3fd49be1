"""Recovers the data that a crash left, and compares it with the promises to clients."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import is_internal
from headwater.coordination.groups.offsets.commands import OffsetQuery
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, TopicName, TopicPartition
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from tests.faults.power_loss.history import History, PartitionHistory, TopicHistory, Transaction
from tests.faults.power_loss.recording import RecordingDisk, Step
from tests.faults.power_loss.workload import KEPT, loaded
from tests.support.broker.embedded_broker import NOW_MS, batch_of, crash, produce, run, start
from tests.support.broker.transactions import eventually
from tests.support.storage.transactions import read_committed

READ_BYTES = 1 << 20


class Promised(NamedTuple):
    """`is_kept`: whether acknowledged records must be there, or may be missing from the end."""

    history: History
    step: int
    is_kept: bool


class Recovery(NamedTuple):
    """The disk steps of a recovery, after the steps that had produced its input."""

    first_step: int
    steps: Sequence[Step]


async def recover(root: Path, settings: Mapping[str, str], promised: Promised) -> Recovery:
    disk = RecordingDisk(root)
    disk.adopt()
    first_step = len(disk.steps)
    broker = start(root, settings, clock=ManualClock(NOW_MS), disk=disk)
    try:
        await loaded(broker)
        await eventually(lambda: not broker.transactions._marker_writers)
        await check(broker, promised)
        steps = disk.steps[:]
        await _goes_on(broker)
    finally:
        await crash(broker)
    return Recovery(first_step, steps)


async def check(broker: Broker, promised: Promised) -> None:
    history, step, _ = promised
    found = {name for name in broker.metadata.state.by_name if not is_internal(name)}
    for topic in history.topics:
        if topic.must_exist(step):
            assert topic.name in found, f"{topic.name} was created and is gone"
    assert found <= {topic.name for topic in history.topics if topic.may_exist(step)}, "a deleted topic is back"
    for name in found:
        lives = [topic for topic in history.topics if topic.name == name and topic.may_exist(step)]
        # A topic name may belong to its old or its new incarnation after a crash; the records show which.
        problems = [_problem(broker, topic, promised) for topic in lives]
        assert None in problems, f"{name}: {problems}"
    _check_rules(broker, promised)
    _check_transactions(broker, promised)
    await _check_groups(broker, promised)


def _check_rules(broker: Broker, promised: Promised) -> None:
    for acl, changes in promised.history.rules.items():
        may_be_there = {False}
        for is_added, span in changes:
            if span.acknowledged <= promised.step:
                may_be_there = {is_added}
            elif span.asked < promised.step:
                may_be_there.add(is_added)
        is_there = acl in broker.metadata.state.access.acls
        assert is_there in may_be_there, f"the rule '{acl}' is {'back' if is_there else 'gone'}"


def _problem(broker: Broker, topic: TopicHistory, promised: Promised) -> str | None:
    try:
        for index, partition in enumerate(broker.partitions.by_topic[topic.name]):
            assert partition._log.failure is None, f"{partition.id} is out of service: {partition._log.failure}"
            _check_partition(partition, topic.partitions[index], promised, is_compacted=topic.is_compacted)
    except AssertionError as problem:
        return str(problem)
    return None


def _check_partition(
    partition: Partition, history: PartitionHistory, promised: Promised, *, is_compacted: bool
) -> None:
    start = partition.start_offset
    if promised.is_kept:
        assert start >= history.least_start(promised.step), f"{partition.id}: deleted records are back"
    assert start <= history.greatest_start(promised.step), f"{partition.id} begins at {start}, too late"
    found = {record.offset: record for record in _records(partition, is_dense=not is_compacted)}
    for offset, record in found.items():
        sent = history.sent.get(offset)
        assert sent is not None, f"{partition.id} has a record at {offset} that nobody sent: {record.value!r}"
        assert sent.span.asked < promised.step, f"{partition.id}: {record.value!r} comes from the future"
        assert (record.key, record.value) == (sent.key, sent.value), f"{partition.id} has another record at {offset}"
    if is_compacted:
        _check_latest(partition, found, history, promised)
    elif promised.is_kept:
        acknowledged = {offset for offset, sent in history.sent.items() if sent.span.acknowledged <= promised.step}
        missing = sorted(offset for offset in acknowledged if offset >= start and offset not in found)
        assert not missing, f"{partition.id} has lost what it acknowledged at {missing}"


def _check_latest(
    partition: Partition, found: dict[int, Record], history: PartitionHistory, promised: Promised
) -> None:
    """The last acknowledged record of each key is there, or a later one."""
    latest: dict[bytes | None, int] = {}
    for offset, sent in history.sent.items():
        is_counted = sent.transaction is None or sent.transaction.is_committed_by(promised.step)
        if sent.span.acknowledged <= promised.step and is_counted:
            latest[sent.key] = max(offset, latest.get(sent.key, -1))
    for key, offset in latest.items() if promised.is_kept else ():
        is_there = any(record.offset >= offset and record.key == key for record in found.values())
        assert is_there, f"{partition.id} has lost the last record of {key!r}, at {offset}"


def _records(partition: Partition, *, is_dense: bool) -> list[Record]:
    """All records, in whole consecutive batches, each as it was written."""
    log = partition._log
    found: list[Record] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, READ_BYTES, limit_offset=log.end_offset, first_batch_whole=True).read()
        assert data, f"{partition.id} has nothing at {offset}"
        for header, batch in batches.iterate(data):
            batches.verify(batch, header)
            assert not is_dense or header.base_offset <= offset, f"{partition.id} has a hole at {offset}"
            records = batches.read_records(batch, header, READ_BYTES)
            if not header.is_control:
                found += [record for record in records if record.offset >= log.start_offset]
            offset = header.next_offset
    return found


def _check_transactions(broker: Broker, promised: Promised) -> None:
    visible: dict[TopicPartition, set[int]] = {
        partition.id: {record.offset for record in read_committed(partition._log)}
        for partitions in broker.partitions.by_topic.values()
        for partition in partitions
        if not partition.is_internal
    }
    if not promised.is_kept:
        # Each partition may have lost its end independently, including the marker of an abort.
        return
    for transaction in promised.history.transactions:
        seen = [_is_visible(visible, *where, promised.step) for where in transaction.records]
        known = [each for each in seen if each is not None]
        if not transaction.may_be_committed_by(promised.step):
            assert not any(known), "a record is seen of a transaction that was never committed"
        else:
            is_whole = all(known) or not any(known)
            assert is_whole, f"a transaction is seen in part: {transaction.records} {seen}"
            assert all(known) or not transaction.is_committed_by(promised.step), "a committed transaction is not seen"


def _is_visible(
    visible: dict[TopicPartition, set[int]], topic: TopicHistory, index: int, offset: int, step: int
) -> bool | None:
    """Whether the record must be visible; None if unknown, because it was deleted or superseded by its key."""
    partition = TopicPartition(topic.name, index)
    is_gone = topic.is_compacted or not topic.must_exist(step) or topic.partitions[index].greatest_start(step) > offset
    return None if is_gone else offset in visible.get(partition, ())


async def _check_groups(broker: Broker, promised: Promised) -> None:
    history, step, is_kept = promised
    where = TopicPartition(TopicName(KEPT), 0)
    in_transactions: dict[str, list[Transaction]] = {}
    for transaction in history.transactions:
        for group, _ in transaction.commits:
            in_transactions.setdefault(group, []).append(transaction)
    for group in {*history.groups, *in_transactions}:
        commits = history.groups.get(group, [])
        last = max((at for at, (_, span) in enumerate(commits) if span.acknowledged <= step), default=None)
        first_possible = last if last is not None and is_kept else 0
        possible = {offset for offset, span in commits[first_possible:] if span.asked < step}
        transactions = in_transactions.get(group, [])
        for transaction in transactions:
            # Where each log may lose its end by itself, the marker of an abort may be lost, and the next commit of the
            # same producer then ends that transaction as well.
            if transaction.may_be_committed_by(step) or not is_kept:
                possible.update(offset for name, offset in transaction.commits if name == group)
        committed = any(transaction.is_committed_by(step) for transaction in transactions)
        found = await _committed(broker, group, where)
        if found is None:
            assert not is_kept or (last is None and not committed), f"{group} has lost what it committed"
        else:
            assert found in possible, f"{group} is at {found}, not at one of {sorted(possible)}"


async def _committed(broker: Broker, group: str, where: TopicPartition) -> int | None:
    if not broker.groups.shards:
        return None
    outcome = await run(broker.groups.committed(GroupId(group), OffsetQuery([where])).wait())
    assert not isinstance(outcome, HeadwaterError), outcome
    ((_, found, _),) = outcome
    return None if found is None else found.offset


async def _goes_on(broker: Broker) -> None:
    """Check that the recovered broker accepts records and serves them."""
    for partitions in broker.partitions.by_topic.values():
        for partition in partitions:
            if not partition.is_internal:
                append = await produce(broker, partition, batch_of(b"after the crash"))
                assert append.error is None, append.error
                assert append.base_offset + 1 == partition._log.end_offset
