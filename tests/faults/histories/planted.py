"""Bugs that break one promise each, for a broker in a process of its own. They prove that the checks can fail.

Each replaces functions of the broker. A bug that strikes only now and then counts calls, so that a short load meets it.
"""

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.writes.journal import Append
from headwater.coordination.groups.classic.commands import Sync
from headwater.coordination.groups.classic.roster import ClassicRoster
from headwater.coordination.groups.consumer import consequences, reconciliation
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.offsets.commands import Commit
from headwater.errors import ErrorCode
from headwater.ids import GroupId
from headwater.listeners.kafka.apis.records import fetch, produce
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Marker
from headwater.protocol.batches.records import Record
from headwater.storage.data_directory import DataDirectory
from headwater.storage.log import Log

# Not a multiple of the number of partitions in a response.
EACH = 7
HELD_S = 1.0
LAST_OFFSET_DELTA_POSITION = 23


class Bug(NamedTuple):
    invariant: str
    # The clients that exercise the bug.
    roles: Sequence[str]
    plant: Callable[[], None]


def _now_and_then(each: int = EACH) -> Callable[[], bool]:
    """True once in this many calls, first at the second call, because a slow machine may make few."""
    numbers = count(each - 1)
    return lambda: next(numbers) % each == 0


def _ignore(append: Append) -> None:
    del append


def _check_no_sequence() -> None:
    Log.check_sequence = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]


# -- when records are written


def _stage(replace: Callable[[Any, Partition, BatchHeader, memoryview, Append, dict[str, int]], None]) -> None:
    """Wrap staging: `replace` gets the correct function first. Internal topics and markers are left alone."""
    right = Partition.stage

    def wrong(self: Partition, header: BatchHeader, batch: memoryview, append: Append, **more: int) -> None:
        if self.is_internal or header.is_control:
            right(self, header, batch, append, **more)
        else:
            replace(right, self, header, batch, append, more)

    Partition.stage = wrong  # pyright: ignore[reportAttributeAccessIssue]


def _acknowledge_without_append() -> None:
    _check_no_sequence()
    is_due = _now_and_then()

    def wrong(
        right: Any, self: Partition, header: BatchHeader, batch: memoryview, append: Append, more: dict[str, int]
    ) -> None:
        if not is_due():
            right(self, header, batch, append, **more)
            return
        append.base_offset = self._next_offset
        append.next_offset = self._next_offset + header.record_count
        append.complete()

    _stage(wrong)


def _append_twice() -> None:
    is_due = _now_and_then()
    right_check = Log.check_sequence

    def wrong(
        right: Any, self: Partition, header: BatchHeader, batch: memoryview, append: Append, more: dict[str, int]
    ) -> None:
        again = memoryview(bytearray(batch))
        right(self, header, batch, append, **more)
        if is_due():
            _check_no_sequence()
            right(self, header, again, Append(_ignore), **more)
            Log.check_sequence = right_check

    _stage(wrong)


def _append_the_next_first() -> None:
    """Hold a batch until another batch of its producer has overtaken it."""
    _check_no_sequence()
    is_due = _now_and_then()
    held: dict[tuple[Partition, int], Callable[[], None]] = {}

    def release(where: tuple[Partition, int]) -> None:
        if where in held:
            held.pop(where)()

    def wrong(
        right: Any, self: Partition, header: BatchHeader, batch: memoryview, append: Append, more: dict[str, int]
    ) -> None:
        where = self, header.producer_id
        if where not in held and is_due():
            copy = memoryview(bytearray(batch))
            held[where] = lambda: right(self, header, copy, append, **more)
            asyncio.get_running_loop().call_later(HELD_S, release, where)
            return
        right(self, header, batch, append, **more)
        release(where)

    _stage(wrong)


def _append_what_nobody_sent() -> None:
    is_due = _now_and_then()

    def wrong(
        right: Any, self: Partition, header: BatchHeader, batch: memoryview, append: Append, more: dict[str, int]
    ) -> None:
        right(self, header, batch, append, **more)
        if is_due():
            phantom = batches.build([Record(0, more["now_ms"], b"1", b"nobody sent this")])
            right(self, batches.read_header(phantom), memoryview(phantom), Append(_ignore), **more)

    _stage(wrong)


def _leave_an_offset_out() -> None:
    """Let a batch take one offset more than it has records."""
    _check_no_sequence()
    is_due = _now_and_then()

    def wrong(
        right: Any, self: Partition, header: BatchHeader, batch: memoryview, append: Append, more: dict[str, int]
    ) -> None:
        if is_due():
            header = header._replace(last_offset_delta=header.last_offset_delta + 1)
            struct.pack_into(">i", batch, LAST_OFFSET_DELTA_POSITION, header.last_offset_delta)
            batches._seal(batch)
        right(self, header, batch, append, **more)

    _stage(wrong)


# -- when records are read


def _answer(change: Callable[[Any], None]) -> None:
    """Wrap fetch responses: `change` gets the answer of one partition with the bytes of its records."""
    right = fetch._partition_data

    def wrong(index: int, read: Any) -> Any:
        data: Any = right(index, read)
        if read.records is not None:
            data.records = read.records.read()
        change(data)
        return data

    fetch._partition_data = wrong


def _show_other_values() -> None:
    """Swap values in one response, with a valid checksum; the next response is correct again."""
    is_due = _now_and_then(3)

    def change(data: Any) -> None:
        if not data.records or not is_due():
            return
        changed = bytearray()
        for header, batch in batches.iterate(data.records):
            if header.is_control:
                changed += batch
                continue
            records = batches.read_records(batch, header, 1 << 26)
            values = [record.value for record in records]
            changed += batches.build(
                [
                    Record(record.offset, record.timestamp, record.key, value, record.headers)
                    for record, value in zip(records, reversed(values), strict=True)
                ],
                base_offset=header.base_offset,
                leader_epoch=header.leader_epoch,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                transactional=header.is_transactional,
            )
        data.records = bytes(changed)

    _answer(change)


def _show_batches_backwards() -> None:
    def change(data: Any) -> None:
        data.records = b"".join(reversed([bytes(batch) for _, batch in batches.iterate(data.records or b"")]))

    _answer(change)


def _let_ends_go_back(name: str) -> Callable[[], None]:
    def plant() -> None:
        is_due = _now_and_then()

        def change(data: Any) -> None:
            if is_due():
                setattr(data, name, max(0, getattr(data, name) - 1))

        _answer(change)

    return plant


# -- transactions


def _abort_in_some_partitions() -> None:
    right = Partition.stage_marker

    def wrong(self: Partition, producer_id: int, epoch: int, marker: Marker, *more: Any, **options: int) -> None:
        if self.id.partition == 1:
            marker = Marker(False, marker.coordinator_epoch)
        right(self, producer_id, epoch, marker, *more, **options)

    Partition.stage_marker = wrong  # pyright: ignore[reportAttributeAccessIssue]


def _show_what_was_aborted() -> None:
    Partition.aborted = lambda *_: ()  # pyright: ignore[reportAttributeAccessIssue]


def _forget_offsets_of_transactions() -> None:
    right = GroupCoordinator.end_transaction

    def wrong(self: GroupCoordinator, partition: int, producer: Any, epoch: int, coordinator: int, *_: object) -> Any:
        return right(self, partition, producer, epoch, coordinator, False, 1)

    GroupCoordinator.end_transaction = wrong  # pyright: ignore[reportAttributeAccessIssue]


# -- groups


def _forget_commits() -> None:
    right = GroupCoordinator.commit
    is_due = _now_and_then(4)

    def wrong(self: GroupCoordinator, group_id: GroupId, commit: Commit) -> Any:
        if not is_due():
            return right(self, group_id, commit)
        done: Pending[Sequence[ErrorCode]] = Pending()
        done.resolve([ErrorCode.NONE] * len(commit.offsets))
        return done

    GroupCoordinator.commit = wrong


def _take_any_generation() -> None:
    ClassicRoster.check_generation = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]


def _take_any_epoch() -> None:
    ConsumerGroup._check_epoch = lambda *_, **__: None  # pyright: ignore[reportAttributeAccessIssue]


def _assign_all_to_everybody() -> None:
    right = GroupCoordinator.sync

    def wrong(self: GroupCoordinator, group_id: GroupId, sync: Sync) -> Any:
        # Every member gets the assignment that the leader meant for the last one; with many members that may be empty.
        longest = max(sync.assignments.values(), key=len, default=b"")
        return right(self, group_id, sync._replace(assignments=dict.fromkeys(sync.assignments, longest)))

    GroupCoordinator.sync = wrong


def _let_two_own_it() -> None:
    """In the next-generation protocol a new owner does not wait until the old one gives a partition up."""
    right = consequences.compute_targets

    def wrong(*arguments: Any) -> Any:
        targets = right(*arguments)
        most = max(targets.values(), key=lambda each: sum(map(len, each.values())))
        return dict.fromkeys(targets, most)

    consequences.compute_targets = wrong
    reconciliation._free = lambda wanted, _: wanted


# -- all of it


def _answer_no_producer_after_a_restart() -> None:
    right_open, right_handle = DataDirectory.__init__, produce.handle
    is_restarted = False

    def opened(self: DataDirectory, root: Path, *more: Any, **options: Any) -> None:
        nonlocal is_restarted
        is_restarted = root.exists() and any(root.iterdir())
        right_open(self, root, *more, **options)

    def wrong(request: Any, context: Any) -> Any:
        return Pending[Any]() if is_restarted else right_handle(request, context)

    DataDirectory.__init__ = opened
    produce.handle = wrong


BUGS: Mapping[str, Bug] = {
    "acknowledge-without-append": Bug("I1", ["producer"], _acknowledge_without_append),
    "show-other-values": Bug("I2", ["producer", "fetcher"], _show_other_values),
    "append-twice": Bug("I3", ["producer"], _append_twice),
    "append-the-next-first": Bug("I4", ["trickle"], _append_the_next_first),
    "append-what-nobody-sent": Bug("I5", ["producer"], _append_what_nobody_sent),
    "show-batches-backwards": Bug("I6", ["producer", "classic"], _show_batches_backwards),
    "leave-an-offset-out": Bug("I7", ["producer"], _leave_an_offset_out),
    "abort-in-some-partitions": Bug("I8", ["producer", "copier"], _abort_in_some_partitions),
    "show-what-was-aborted": Bug("I8", ["producer", "copier"], _show_what_was_aborted),
    "forget-offsets-of-transactions": Bug("I8", ["producer", "copier"], _forget_offsets_of_transactions),
    "high-watermark-goes-back": Bug("I10", ["producer", "fetcher"], _let_ends_go_back("high_watermark")),
    "last-stable-offset-goes-back": Bug("I10", ["producer", "fetcher"], _let_ends_go_back("last_stable_offset")),
    "forget-commits": Bug("I12", ["producer", "classic"], _forget_commits),
    "take-any-generation": Bug("I12", ["zombie"], _take_any_generation),
    "take-any-epoch": Bug("I12", ["zombie"], _take_any_epoch),
    "assign-all-to-everybody": Bug("I13", ["producer", "classic"], _assign_all_to_everybody),
    "let-two-own-it": Bug("I13", ["producer", "copier", "consumer"], _let_two_own_it),
    "answer-no-producer-after-a-restart": Bug("I16", ["producer"], _answer_no_producer_after_a_restart),
}
