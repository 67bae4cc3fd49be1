from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.storage.log import Log
from tests.support.storage.builders import NOW_MS, create, fill, flush, numbered, reopen, settings, staged


def test_an_empty_log_has_no_offset_for_any_time(tmp_path: Path) -> None:
    log = create(tmp_path)
    assert log.timestamp_lookup(0, 0).run() is None
    assert log.latest_timestamp_lookup().run() is None


def test_the_record_is_found_inside_its_batch(tmp_path: Path) -> None:
    log = create(tmp_path)
    times = [5, 9, 7, 20, 20]
    records = [Record(n, NOW_MS + time, None, b"v") for n, time in enumerate(times)]
    log.append([staged(records, codec=Codec.ZSTD, leader_epoch=3)], NOW_MS)

    assert log.timestamp_lookup(NOW_MS + 6, 5).run() == (NOW_MS + 9, 1, 3)
    assert log.timestamp_lookup(NOW_MS + 10, 5).run() == (NOW_MS + 20, 3, 3)
    assert log.timestamp_lookup(NOW_MS + 21, 5).run() is None
    assert log.latest_timestamp_lookup().run() == (NOW_MS + 20, 3, 3)


def test_records_before_the_start_or_after_the_limit_are_not_found(tmp_path: Path) -> None:
    log = create(tmp_path)
    for offset in range(60):
        log.append([numbered(offset, timestamp=NOW_MS + 100 - offset)], NOW_MS)
    log.advance_start(20).run()

    found = log.timestamp_lookup(NOW_MS + 41, 60).run()
    assert found is not None
    assert found.offset == 20
    assert log.timestamp_lookup(NOW_MS + 85, 60).run() is None
    for offset in range(60, 90):
        log.append([numbered(offset, timestamp=NOW_MS + 1000)], NOW_MS)
    assert log.timestamp_lookup(NOW_MS + 1000, 60).run() is None
    found = log.timestamp_lookup(NOW_MS + 1000, 61).run()
    assert found is not None
    assert found.offset == 60


def test_a_lookup_survives_the_removal_of_its_segments(tmp_path: Path) -> None:
    log = create(tmp_path)
    fill(log, 60)
    lookup = log.timestamp_lookup(NOW_MS, 60)
    log.advance_start(60).run()
    found = lookup.run()
    assert found is not None
    assert found.offset == 0


@hypothesis_settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=3), min_size=1, max_size=60),
    st.integers(0, 41),
    st.data(),
)
def test_the_first_record_at_or_after_a_time_is_found(
    tmp_path_factory: pytest.TempPathFactory, turns: list[list[int]], target: int, data: st.DataObject
) -> None:
    log: Log = create(tmp_path_factory.mktemp("log"), settings(segment_bytes=800))
    times: list[int] = []
    for turn in turns:
        records = [Record(len(times) + n, NOW_MS + time, b"k", b"v") for n, time in enumerate(turn)]
        log.append([staged(records)], NOW_MS)
        times += turn
    flush(log)
    how = data.draw(st.sampled_from(["live", "crashed", "closed"]))
    if how == "crashed":
        log = reopen(log)
    elif how == "closed":
        log.close()
        log = reopen(log, clean=True)

    found = log.timestamp_lookup(NOW_MS + target, log.end_offset).run()
    expected = next(((NOW_MS + time, n, 0) for n, time in enumerate(times) if time >= target), None)
    assert found == expected
    latest = max(times)
    assert log.latest_timestamp_lookup().run() == (NOW_MS + latest, times.index(latest), 0)
