"""Random sequences of operations on a log, against a model: a plain list of records."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.protocol.batches import batch as batches
from headwater.storage.disk import Disk
from headwater.storage.log import Log
from tests.support.storage.builders import NOW_MS, create, flush, numbered, offsets, reopen, settings


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.start = 0
        self.flushed = 0
        self.batches: list[tuple[int, int]] = []  # base offset, next offset
        self.last_timestamp = NOW_MS

    def teardown(self) -> None:
        shutil.rmtree(self.path)

    @initialize(segment_bytes=st.sampled_from([150, 500, 2000]), interval_bytes=st.sampled_from([0, 100, 1000]))
    def begin(self, segment_bytes: int, interval_bytes: int) -> None:
        config = settings(segment_bytes=segment_bytes, index_interval_bytes=interval_bytes, retention_ms=100)
        self.log: Log = create(self.path, config)

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else self.start

    @rule(counts=st.lists(st.integers(1, 4), min_size=1, max_size=6), pause_ms=st.integers(0, 60))
    def append(self, counts: list[int], pause_ms: int) -> None:
        self.last_timestamp += pause_ms
        turn: list[tuple[batches.BatchHeader, bytearray]] = []
        for count in counts:
            base = self.end
            turn.append(numbered(base, count, timestamp=self.last_timestamp))
            self.batches.append((base, base + count))
        self.log.append(turn, self.last_timestamp)

    @rule()
    def flush(self) -> None:
        flush(self.log)
        self.flushed = self.end
        assert self.log.flushed_offset == self.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        cuts = [base for base, _ in self.batches if base >= self.start]
        if cuts:
            offset = data.draw(st.sampled_from(cuts))
            self.log.truncate_to(offset).run()
            self.batches = [batch for batch in self.batches if batch[1] <= offset]
            self.flushed = min(self.flushed, offset)
            if not self.batches:
                self.batches.append((offset, offset))

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.advance_start(self.start).run()

    @rule()
    def expire(self) -> None:
        self.log.expire(self.last_timestamp, self.end).run()
        assert self.log.start_offset >= self.start
        self.start = self.log.start_offset

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def crash(self) -> None:
        self.log = reopen(self.log, recovery_point=self.flushed, start_offset=self.start)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.flushed = self.end
        self.log = reopen(self.log, clean=True, recovery_point=self.end, start_offset=self.start)

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), bytes_max=st.integers(0, 1000))
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        found = self.log.read(offset, bytes_max, limit_offset=self.end, first_batch_whole=True)
        spans = [(header.base_offset, header.next_offset) for header, _ in batches.iterate(found.read())]
        following = [batch for batch in self.batches if batch[1] > offset and batch[1] > batch[0]]
        assert spans == following[: len(spans)]
        assert bool(spans) == bool(following)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
            assert offsets(self.log) == list(range(self.start, self.end))
            assert self.log.size_bytes == sum(Disk().size(segment.path(".log")) for segment in self.log.segments)


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = hypothesis_settings(max_examples=60, stateful_step_count=25)
