"""Kafka's own kafka-dump-log reads markers, aborted transactions and open ones from the files of a partition."""

from pathlib import Path

import pytest

from headwater.storage.cleaning import compaction
from tests.interop.dump_log import DumpLog, fields
from tests.support.storage.builders import NOW_MS, create, flush, names_in, settings
from tests.support.storage.transactions import Writer, stable

pytestmark = pytest.mark.interop


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of three producers the first commits and aborts by turns, the second ends late, the third not at all."""
    config = settings(
        segment_bytes=900,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=1000,
    )
    log = create(tmp_path, config)
    writer = Writer(log)
    for turn in range(8):
        writer.transaction(1, b"key%d" % turn, committed=turn % 2 == 0)
        writer.data([(b"late%d" % turn, b"v")], 2, epoch=3, transactional=True)
        if turn % 4 == 3:
            writer.end(2, committed=False, epoch=3)
        writer.write()
    flush(log)
    for now_ms in (NOW_MS, NOW_MS + 10):
        task = compaction.plan(log, now_ms, stable(log))
        assert task is not None
        task.run(1 << 20, lambda: False)
        log.install(task).run()
        writer.transaction(1, b"key", committed=False)
        log.roll(NOW_MS)
        flush(log)
    writer.data([(b"open", b"v")], 4, epoch=5, transactional=True)
    writer.write()
    log.close()
    assert len(names_in(log, ".txnindex")) > 1
    return log.directory


def test_aborted_transactions_and_their_markers(dump_log: DumpLog, directory: Path) -> None:
    indexes = dump_log(sorted(directory.glob("*.txnindex")))
    assert not indexes.complaints
    entries = [fields(line) for line in indexes.others if line.startswith("version: ")]
    log = dump_log(sorted(directory.glob("*.log")), "--deep-iteration", "--print-data-log")
    assert not log.complaints
    assert {batch["isvalid"] for batch in log.batches} == {"true"}
    markers = {
        int(found["offset"]): found["endTxnMarker"] for found in log.records if found.get("endTxnMarker") is not None
    }
    assert set(markers.values()) == {"COMMIT", "ABORT"}
    assert entries
    for entry in entries:
        assert entry["version"] == "0"
        assert markers[int(entry["lastOffset"])] == "ABORT"
        assert int(entry["firstOffset"]) < int(entry["lastOffset"])
        assert int(entry["lastStableOffset"]) <= int(entry["lastOffset"]) + 1


def test_an_open_transaction_is_in_the_snapshot(dump_log: DumpLog, directory: Path) -> None:
    dump = dump_log([max(directory.glob("*.snapshot"))])
    assert not dump.complaints
    states = {found["producerId"]: found for line in dump.others if (found := fields(line)).get("producerId")}
    end = max(int(path.stem) for path in directory.glob("*.snapshot"))
    assert (states["4"]["producerEpoch"], states["4"]["lastOffset"]) == ("5", str(end - 1))
    assert f"currentTxnFirstOffset: OptionalLong[{end - 1}]" in "\n".join(dump.others)
