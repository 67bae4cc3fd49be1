"""Random sequences of transactions, crashes and log maintenance, against a simple model of the committed records."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.protocol.batches.records import Record
from headwater.storage.cleaning import compaction
from headwater.storage.disk import Disk
from headwater.storage.inspection import segment_report
from headwater.storage.log import Log
from tests.support.storage.builders import NOW_MS, create, flush, reopen, settings
from tests.support.storage.transactions import Writer, read_committed

PRODUCERS = 4
RETENTION_MS = 1000

KEYS = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple)
# A staged batch of a producer (-1: of none), or the end of a transaction (True: committed).
Step = tuple[int, tuple[int, ...], bool] | bool
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.integers(-1, PRODUCERS - 1), KEYS, st.booleans()) | st.booleans(), min_size=1, max_size=12
)


class Data(NamedTuple):
    offset: int
    keys: tuple[int, ...]
    producer: int
    epoch: int
    sequence: int
    transactional: bool

    @property
    def records(self) -> list[Record]:
        return [
            Record(self.offset + n, NOW_MS, b"key%d" % key, None if key == 0 else b"%d" % (self.offset + n))
            for n, key in enumerate(self.keys)
        ]


class End(NamedTuple):
    offset: int
    producer: int
    epoch: int
    committed: bool


@dataclass
class Account:
    """A simple model: the records and outcomes that follow from the events."""

    records: list[tuple[Record, int | None]] = field(default_factory=list)  # with the number of the transaction
    outcomes: list[bool | None] = field(default_factory=list)
    first_offsets: list[int] = field(default_factory=list)
    markers: list[int | None] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)

    def add(self, event: Data | End) -> None:
        if isinstance(event, End):
            number = self.open.pop(event.producer, None)
            if number is not None:
                self.outcomes[number], self.markers[number] = event.committed, event.offset
            if event.epoch != self.epochs.get(event.producer, 0):
                self.sequences[event.producer] = 0
            self.epochs[event.producer] = event.epoch
            return
        number = self.open.get(event.producer) if event.transactional else None
        if event.transactional and number is None:
            number = self.open[event.producer] = len(self.outcomes)
            self.outcomes.append(None)
            self.first_offsets.append(event.offset)
            self.markers.append(None)
        self.records += [(record, number) for record in event.records]
        self.sequences[event.producer] = event.sequence + len(event.keys)

    def stable_before(self, high_watermark: int) -> int:
        undecided = [
            first
            for first, marker in zip(self.first_offsets, self.markers, strict=True)
            if marker is None or marker >= high_watermark
        ]
        return min([high_watermark, *undecided])

    def committed(self, start: int, end: int) -> list[Record]:
        return [
            record
            for record, number in self.records
            if start <= record.offset < end and (number is None or self.outcomes[number])
        ]


class TransactionsAgainstAccount(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.written: list[Data | End] = []
        self.staged: list[Data | End] = []
        self.high_watermark = 0
        self.recovery_point = 0
        self.now_ms = NOW_MS
        self.compacted_before = 0

    def teardown(self) -> None:
        shutil.rmtree(self.path)

    @initialize(segment_bytes=st.sampled_from([200, 500, 3000]), interval_bytes=st.sampled_from([0, 100, 1000]))
    def begin(self, segment_bytes: int, interval_bytes: int) -> None:
        config = settings(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval_bytes,
            cleanup_policy=frozenset({"compact", "delete"}),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=RETENTION_MS,
            retention_ms=-1,
        )
        self.writer = Writer(create(self.path, config))

    @property
    def log(self) -> Log:
        return self.writer.log

    def account(self, *, with_staged: bool = False) -> Account:
        account = Account()
        for event in self.written + (self.staged if with_staged else []):
            account.add(event)
        return account

    # -- producers: the first two end transactions in protocol 1, the others in protocol 2

    @rule(steps=STEPS, is_shown=st.booleans())
    def write(self, steps: list[Step], is_shown: bool) -> None:
        self._stage(steps)
        self.writer.write()
        self.written += self.staged
        self.staged = []
        if is_shown:
            self.high_watermark = self.log.end_offset

    @rule(steps=STEPS, is_shown=st.booleans())
    def write_more(self, steps: list[Step], is_shown: bool) -> None:
        """Most steps write, as in a real log."""
        self.write(steps, is_shown)

    @rule(steps=STEPS)
    def meet_a_full_disk(self, steps: list[Step]) -> None:
        self._stage(steps)
        self.writer.refuse()
        self.staged = []

    @rule(steps=STEPS)
    def crash_before_a_write(self, steps: list[Step]) -> None:
        self._stage(steps)
        self.staged = []
        self._use(reopen(self.log, recovery_point=self.recovery_point))

    def _stage(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, bool):
                self._end(len(self.staged) % PRODUCERS, committed=step)
            elif step[0] < 0:
                event = Data(self.writer.next_offset, step[1], -1, 0, 0, transactional=False)
                self.writer.data([(record.key, record.value) for record in event.records])
                self.staged.append(event)
            else:
                self._produce(*step)

    def _produce(self, producer: int, keys: tuple[int, ...], transactional: bool) -> None:
        account = self.account(with_staged=True)
        if producer in account.open:
            transactional = True
        epoch, sequence = account.epochs.get(producer, 0), account.sequences.get(producer, 0)
        event = Data(self.writer.next_offset, keys, producer, epoch, sequence, transactional)
        self.writer.data(
            [(record.key, record.value) for record in event.records],
            producer,
            epoch=epoch,
            sequence=sequence,
            transactional=transactional,
        )
        self.staged.append(event)

    def _end(self, producer: int, *, committed: bool) -> None:
        version = 1 if producer < PRODUCERS // 2 else 2
        epoch = self.account(with_staged=True).epochs.get(producer, 0) + version - 1
        offset = self.writer.end(producer, committed=committed, epoch=epoch, version=version)
        self.staged.append(End(offset, producer, epoch, committed))

    # -- the log

    @rule()
    def flush(self) -> None:
        flush(self.log)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        last = self.log.start_offset + (self.high_watermark - self.log.start_offset) // 3
        self.log.advance_start(data.draw(st.integers(self.log.start_offset, last))).run()

    @rule(pause_ms=st.sampled_from([0, RETENTION_MS // 2, RETENTION_MS]))
    def compact(self, pause_ms: int) -> None:
        self.now_ms += pause_ms
        flush(self.log)
        task = compaction.plan(self.log, self.now_ms, self.stable_offset)
        if task is not None:
            self.compacted_before = self.high_watermark
            task.run(1 << 20, lambda: False)
            self.log.install(task).run()

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.recovery_point = self.log.recovery_point
        self._use(reopen(self.log, clean=True, recovery_point=self.log.end_offset))

    @rule(data=st.data())
    def damage_an_index(self, data: st.DataObject) -> None:
        self.log.close()
        indexes = sorted(self.log.directory.glob("*.txnindex"))
        if indexes:
            index = data.draw(st.sampled_from(indexes))
            index.write_bytes(data.draw(st.sampled_from([b"torn", bytes(34), bytes(68), index.read_bytes() * 2])))
        self._use(reopen(self.log, clean=True, recovery_point=self.log.end_offset))

    @precondition(lambda self: self.log.start_offset == 0)
    @rule(data=st.data(), is_clean=st.booleans())
    def lose_snapshots(self, data: st.DataObject, is_clean: bool) -> None:
        """Only while the log has its first record: without it only snapshots know where a transaction began."""
        if is_clean:
            self.log.close()
            self.recovery_point = self.log.end_offset
        snapshots = sorted(self.log.directory.glob("*.snapshot"))
        for snapshot in snapshots[data.draw(st.integers(0, len(snapshots))) :]:
            snapshot.write_bytes(b"rotten")
        self._use(reopen(self.log, clean=is_clean, recovery_point=self.recovery_point))

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Truncates as a follower does, and never below the offset that was visible when the log was compacted."""
        offset = data.draw(st.sampled_from([event.offset for event in self.written] or [0]))
        if offset >= max(self.compacted_before, self.log.start_offset):
            self.log.truncate_to(offset).run()
            self.written = [event for event in self.written if event.offset < offset]
            self.high_watermark = min(self.high_watermark, offset)
            self.recovery_point = min(self.recovery_point, offset)

    def _use(self, log: Log) -> None:
        self.writer = Writer(log)
        self.high_watermark = log.end_offset

    # -- invariants

    @property
    def stable_offset(self) -> int:
        return max(self.log.producers.transactions.stable_before(self.high_watermark), self.log.start_offset)

    @invariant()
    def a_consumer_sees_what_was_committed(self) -> None:
        if not hasattr(self, "writer"):
            return
        stable_offset = self.stable_offset
        account = self.account()
        assert stable_offset == max(account.stable_before(self.high_watermark), self.log.start_offset)
        expected = account.committed(self.log.start_offset, stable_offset)
        found = read_committed(self.log, stable_offset, bytes_max=250)
        if not self.compacted_before:
            assert found == expected
            return
        # Compaction keeps the latest record of every key and adds no record.
        assert latest(found) == latest(expected)
        by_offset = {record.offset: record for record in expected}
        assert all(by_offset[record.offset] == record for record in found)

    @invariant()
    def producers_are_known_as_they_are(self) -> None:
        if hasattr(self, "writer"):
            account = self.account(with_staged=True)
            for state in self.log.producers:
                number = account.open.get(state.producer_id)
                first_offset = -1 if number is None else account.first_offsets[number]
                assert state.current_txn_first_offset == first_offset
                assert state.producer_epoch == account.epochs.get(state.producer_id, 0)

    @invariant()
    def entries_have_their_markers(self) -> None:
        """A consumer skips the records of an aborted transaction until its marker, so the marker must exist."""
        if hasattr(self, "writer"):
            for segment in self.log.segments:
                if segment.aborted is not None and not segment.aborted.is_damaged:
                    found = {
                        report.header.base_offset
                        for report in segment_report.inspect_segment(Disk(), segment.path(".log"))
                        if report.header is not None and report.header.is_control
                    }
                    aborted = self.log.aborted.within(segment.base_offset, segment.next_offset)
                    mine = [one.last_offset for one in aborted if one.last_offset < segment.next_offset]
                    assert set(mine) <= found


def latest(records: list[Record]) -> dict[bytes | None, bytes]:
    values = {record.key: record.value for record in records}
    return {key: value for key, value in values.items() if value is not None}


TestTransactionsAgainstAccount = TransactionsAgainstAccount.TestCase
TestTransactionsAgainstAccount.settings = hypothesis_settings(max_examples=50, stateful_step_count=30)
