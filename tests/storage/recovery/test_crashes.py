"""Crashes at every step of a life: appends, rolls, flushes, retention, compaction; then crashes inside the recovery."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.config.topic import TopicConfig
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.storage.cleaning import compaction
from headwater.storage.flush import flush_task
from headwater.storage.log import Log
from headwater.storage.log_factory import open_log
from tests.storage.recovery.crashes import MODES, Mode, RecordingDisk, crash, materialize
from tests.support.storage.builders import NOW_MS, contents, create, flush, numbered, produced, record, settings, staged
from tests.support.storage.transactions import Writer, account, read_committed, stable


@dataclass(frozen=True)
class Promise:
    """What the log had promised after the first `step` steps."""

    step: int
    start_offset: int
    flushed_offset: int
    recovery_point: int
    end_offset: int


class Life:
    """A log on a recording disk, and the promises it made at each step."""

    def __init__(self, path: Path, config: TopicConfig) -> None:
        self.disk = RecordingDisk()
        self.log = create(path, config, self.disk)
        self.appended: list[bytes] = []
        self.promises: list[Promise] = []
        self.promise()

    def append(self, *staged_batches: tuple[batches.BatchHeader, bytearray]) -> None:
        self.log.append(staged_batches, NOW_MS)
        for header, data in staged_batches:
            self.log.producers.update(header, NOW_MS)
            self.appended.append(bytes(data))
        self.promise()

    def write(self, writer: Writer) -> None:
        self.appended += [bytes(data) for _, data in writer.staged]
        writer.write()
        self.promise()

    def flush(self) -> None:
        flush(self.log)
        self.promise()

    def promise(self) -> None:
        log = self.log
        self.promises.append(
            Promise(len(self.disk.steps), log.start_offset, log.flushed_offset, log.recovery_point, log.end_offset)
        )

    def at(self, step: int) -> tuple[Promise, Promise]:
        """The last promise before the crash, and the operation in progress."""
        past = [promise for promise in self.promises if promise.step <= step]
        coming = [promise for promise in self.promises if promise.step > step]
        return past[-1], coming[0] if coming else past[-1]


def reopen_after(life: Life, step: int, mode: Mode, directory: Path, recovery_point: int) -> Log:
    materialize(crash(life.disk.steps[:step], mode, seed=step), directory)
    past, _ = life.at(step)
    return open_log(
        recording_over(directory),
        directory,
        life.log.config,
        clean=False,
        recovery_point=recovery_point,
        start_offset=past.start_offset,
        now_ms=NOW_MS,
        report=[].append,
    )


def recording_over(directory: Path) -> RecordingDisk:
    disk = RecordingDisk()
    disk.adopt(directory)
    return disk


def check_prefix(life: Life, log: Log, step: int, mode: Mode) -> None:
    past, coming = life.at(step)
    assert log.end_offset <= coming.end_offset
    assert log.end_offset >= past.flushed_offset, "what was flushed is there"
    if mode == "killed":
        assert log.end_offset >= past.end_offset, "a killed process loses nothing that it wrote"
    expected = {batches.read_header(data).base_offset: data for data in life.appended}
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, limit_offset=log.end_offset, first_batch_whole=True).read()
        assert data, f"hole at {offset}"
        for header, batch in batches.iterate(data):
            assert bytes(batch) == expected[header.base_offset]
            assert header.base_offset <= offset, f"hole at {offset}"
            offset = header.next_offset
    for state in log.producers:
        assert state.last_offset < log.end_offset, "no sequence is taken for a batch that is gone"


def check_usable(log: Log) -> None:
    """The log still works: an append, a clean close, and a clean start with the appended batch."""
    log.append([numbered(log.end_offset)], NOW_MS)
    before = contents(log)
    log.close()
    again = open_log(
        recording_over(log.directory),
        log.directory,
        log.config,
        clean=True,
        recovery_point=log.end_offset,
        start_offset=log.start_offset,
        now_ms=NOW_MS,
        report=pytest.fail,
    )
    assert contents(again) == before


@pytest.fixture
def plain_life(tmp_path: Path) -> Life:
    life = Life(tmp_path, settings(segment_bytes=400))
    sequence = 0
    for turn in range(9):
        turn_batches: list[tuple[batches.BatchHeader, bytearray]] = []
        for count in (1, 2):
            offset = life.log.end_offset + sum(header.last_offset_delta + 1 for header, _ in turn_batches)
            turn_batches.append(produced(offset, sequence, count=count))
            sequence += count
        life.append(*turn_batches)
        if turn % 3 == 1:
            life.flush()
        if turn == 6:
            life.log.advance_start(8).run()
            life.promise()
    return life


@pytest.mark.parametrize("mode", MODES)
def test_after_a_crash_at_any_step_only_an_unflushed_suffix_is_missing(
    plain_life: Life, tmp_path: Path, mode: Mode
) -> None:
    for step in range(plain_life.promises[0].step, len(plain_life.disk.steps) + 1):
        past, _ = plain_life.at(step)
        recovery_point = (0, past.recovery_point // 2, past.recovery_point)[step % 3]
        log = reopen_after(plain_life, step, mode, tmp_path / "crashed" / "orders-0", recovery_point)
        check_prefix(plain_life, log, step, mode)
        check_usable(log)


@pytest.mark.parametrize("mode", ["torn", "unsynced", "reordered"])
def test_a_crash_during_recovery_is_recovered_from(plain_life: Life, tmp_path: Path, mode: Mode) -> None:
    for step in range(10, len(plain_life.disk.steps) + 1, 7):
        past, _ = plain_life.at(step)
        directory = tmp_path / "crashed" / "orders-0"
        first = reopen_after(plain_life, step, mode, directory, past.recovery_point)
        before = crash(plain_life.disk.steps[:step], mode, seed=step)
        disk = first.disk
        assert isinstance(disk, RecordingDisk)
        for second_step in range(len(disk.steps) + 1):
            for second_mode in MODES:
                files = crash(disk.steps[:second_step], second_mode, seed=second_step, before=before)
                again = tmp_path / "again" / "orders-0"
                materialize(files, again)
                log = open_log(
                    recording_over(again),
                    again,
                    plain_life.log.config,
                    clean=False,
                    recovery_point=past.recovery_point,
                    start_offset=past.start_offset,
                    now_ms=NOW_MS,
                    report=[].append,
                )
                check_prefix(plain_life, log, step, mode if mode == second_mode else "unsynced")
                assert log.end_offset == first.end_offset, "the second recovery decides as the first"


def latest(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {found.key: found.value for found in records}


def key_of(offset: int) -> bytes:
    """A few keys are written again and again, others once: so a round of compaction leaves several segments, which
    begin and end elsewhere than those before."""
    return b"key%d" % (offset % 5) if offset % 4 else b"only%d" % offset


@pytest.fixture
def compacted_life(tmp_path: Path) -> tuple[Life, int]:
    """Two rounds of compaction; and the step at which the first began."""
    config = settings(segment_bytes=400, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    life = Life(tmp_path, config)
    for offset in range(18):
        life.append(staged([record(offset, key_of(offset), b"%d" % offset)]))
    life.flush()
    everything = latest(contents(life.log))
    start = len(life.disk.steps)
    for _ in range(2):
        task = compaction.plan(life.log, NOW_MS, life.log.end_offset)
        assert task is not None
        task.run(1 << 20, lambda: False)
        assert task.replacement is not None
        assert len(task.replacement.cleaned) > 1
        life.log.install(task).run()
        life.promise()
        assert latest(contents(life.log)) == everything
        for _ in range(6):
            offset = life.log.end_offset
            life.append(staged([record(offset, key_of(offset), b"%d" % offset)]))
        life.flush()
        everything = latest(contents(life.log))
    return life, start


def check_keys(log: Log) -> None:
    # The value of each key follows from the end of the log alone, compacted or not.
    assert latest(contents(log)) == {key_of(offset): b"%d" % offset for offset in range(log.end_offset)}


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_while_compaction_installs_its_segments_loses_no_key(
    compacted_life: tuple[Life, int], tmp_path: Path, mode: Mode
) -> None:
    life, start = compacted_life
    for step in range(start + MODES.index(mode) % 2, len(life.disk.steps) + 1, 2):
        past, coming = life.at(step)
        recovery_point = 0 if step % 4 < 2 else past.recovery_point
        log = reopen_after(life, step, mode, tmp_path / "crashed" / "orders-0", recovery_point)
        assert past.flushed_offset <= log.end_offset <= coming.end_offset
        check_keys(log)
        check_usable(log)


def test_a_crash_while_recovery_completes_or_undoes_a_compaction_loses_no_key(
    compacted_life: tuple[Life, int], tmp_path: Path
) -> None:
    life, start = compacted_life
    renames = [
        number for number in range(start, len(life.disk.steps)) if life.disk.steps[number].target.endswith(".swap")
    ]
    assert renames
    directory, again = tmp_path / "crashed" / "orders-0", tmp_path / "again" / "orders-0"
    for step in range(renames[0], renames[-1] + 8):
        disk = reopen_after(life, step, "killed", directory, 0).disk
        assert isinstance(disk, RecordingDisk)
        before = crash(life.disk.steps[:step], "killed")
        for second_step in range(len(disk.steps) + 1):
            materialize(crash(disk.steps[:second_step], "killed", before=before), again)
            log = open_log(
                recording_over(again),
                again,
                life.log.config,
                clean=False,
                recovery_point=0,
                start_offset=0,
                now_ms=NOW_MS,
                report=[].append,
            )
            assert log.end_offset >= life.at(step)[0].flushed_offset
            check_keys(log)


# -- transactions


@pytest.fixture
def transactional_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    """Three producers, one of which ends its transactions late, with flushes that write indexes and snapshots."""
    monkeypatch.setattr(flush_task, "_CHECKPOINT_BYTES", 200)
    monkeypatch.setattr(flush_task, "_CHECKPOINT_BYTES_PER_PRODUCER", 0)
    life = Life(tmp_path, settings(segment_bytes=1400, index_interval_bytes=100))
    writer = Writer(life.log)
    for turn in range(13):
        for producer_id in range(2):
            writer.data([(b"k%d" % producer_id, b"%d" % turn)], producer_id, transactional=True)
        if turn % 7 == 0:
            writer.data([(b"late", b"%d" % turn)], 9, transactional=True)
        writer.end(0, committed=turn % 3 == 0)
        if turn % 5 == 4:
            life.write(writer)  # the other's marker comes with the next write
        writer.data([(b"plain", b"%d" % turn)])
        writer.end(1, committed=turn % 2 == 0)
        if turn % 7 == 5:
            writer.end(9, committed=False)
        life.write(writer)
        if turn % 4 != 1:
            life.flush()
        if turn == 9:
            life.log.advance_start(12).run()
            life.promise()
    return life


@pytest.mark.parametrize("mode", MODES)
def test_after_a_crash_at_any_step_only_committed_records_are_read(
    transactional_life: Life, tmp_path: Path, mode: Mode
) -> None:
    life = transactional_life
    assert any(step.path.endswith(".txnindex") for step in life.disk.steps)
    for step in range(life.promises[0].step + MODES.index(mode) % 2, len(life.disk.steps) + 1, 2):
        past, _ = life.at(step)
        recovery_point = (past.recovery_point, 0, past.recovery_point, past.recovery_point // 2)[step // 2 % 4]
        log = reopen_after(life, step, mode, tmp_path / "crashed" / "orders-0", recovery_point)
        check_prefix(life, log, step, mode)
        committed, stable_offset, opened = account(life.appended, log.end_offset)
        assert stable(log) == stable_offset
        assert {
            s.producer_id: s.current_txn_first_offset for s in log.producers if s.current_txn_first_offset >= 0
        } == (opened)
        expected = [record for record in committed if record.offset >= log.start_offset]
        assert read_committed(log, bytes_max=200) == expected
        log.close()
        again = open_log(
            recording_over(log.directory),
            log.directory,
            log.config,
            clean=True,
            recovery_point=log.end_offset,
            start_offset=log.start_offset,
            now_ms=NOW_MS,
            report=[].append,
        )
        assert (read_committed(again), stable(again)) == (expected, stable_offset)


def test_the_name_of_a_transaction_index_is_on_disk_before_recovery_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush_task, "_CHECKPOINT_BYTES", 300)
    monkeypatch.setattr(flush_task, "_CHECKPOINT_BYTES_PER_PRODUCER", 0)
    life = Life(tmp_path, settings(segment_bytes=4000, index_interval_bytes=0))
    writer = Writer(life.log)
    for _ in range(5):
        writer.data([(b"k", b"aborted")], 7, transactional=True)
    life.write(writer)
    life.flush()
    life.disk.sync_directory(life.log.directory)  # makes the names of the other indexes durable
    writer.end(7, committed=False)
    for _ in range(5):
        writer.data([(b"k", b"plain")])
    life.write(writer)
    life.flush()
    assert life.log.recovery_point == 11
    log = reopen_after(life, len(life.disk.steps), "nothing unsynced", tmp_path / "crashed" / "orders-0", 11)
    assert [record.offset for record in read_committed(log)] == [6, 7, 8, 9, 10]


def transaction_indexes(log: Log, end_offset: int) -> dict[bytes, bytes | None]:
    """The aborted transactions of the segments before `end_offset`, computed from their batches."""
    segments = [segment for segment in log.segments if segment.next_offset <= end_offset]
    paths = [(segment.path(".log"), segment.path(".txnindex")) for segment in segments]
    return {data.read_bytes(): index.read_bytes() if index.exists() else None for data, index in paths}


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_during_compaction_of_transactions_revives_no_aborted_record(tmp_path: Path, mode: Mode) -> None:
    config = settings(
        segment_bytes=500,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=0,
    )
    life = Life(tmp_path, config)
    writer = Writer(life.log)
    start = 0
    indexes: dict[bytes, bytes | None] = {}
    for turn in range(18):
        writer.data([(b"key%d" % (turn % 5), b"%d" % turn)], turn % 3, transactional=True)
        writer.end(turn % 3, committed=turn % 4 != 0)
        life.write(writer)
        if turn % 6 == 5:
            life.flush()
            start = start or len(life.disk.steps)
            task = compaction.plan(life.log, NOW_MS, stable(life.log))
            assert task is not None
            task.run(1 << 20, lambda: False)
            indexes |= transaction_indexes(life.log, stable(life.log))
            life.log.install(task).run()
            indexes |= transaction_indexes(life.log, stable(life.log))
            life.promise()

    for step in range(start + MODES.index(mode) % 2, len(life.disk.steps) + 1, 2):
        past, coming = life.at(step)
        recovery_point = 0 if step % 4 < 2 else past.recovery_point
        log = reopen_after(life, step, mode, tmp_path / "crashed" / "orders-0", recovery_point)
        assert past.flushed_offset <= log.end_offset <= coming.end_offset
        committed, stable_offset, _ = account(life.appended, log.end_offset)
        assert stable(log) == stable_offset
        found = read_committed(log)
        assert latest(found) == latest(committed)
        assert {record.offset for record in found} <= {record.offset for record in committed}
        for data, index in transaction_indexes(log, recovery_point).items():
            assert indexes.get(data, index) == index, "a segment never has the index of the one that it replaced"
