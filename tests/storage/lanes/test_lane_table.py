"""The lanes of a segment: in memory as in its file, and files that nobody should trust."""

from contextlib import suppress
from itertools import pairwise

import pytest
from fastcrc.crc32 import iscsi as crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.storage.index import DamagedIndex
from headwater.storage.lanes.lane_table import LANES, BatchMark, LaneTable

BASE = 1000
PIECES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=40)


def table_of(pieces: list[tuple[int, int]]) -> tuple[LaneTable, list[int]]:
    """A table, and the lane of each offset."""
    table, lanes = LaneTable.empty(BASE), list[int]()
    for size, lane in pieces:
        table.add(BASE + len(lanes), BASE + len(lanes) + size - 1, lane)
        lanes += [lane] * size
    table.position = len(lanes) * 10
    table.last_batch = BatchMark(table.position - 10, BASE + len(lanes) - 1, 3, 0xDEADBEEF)
    return table, lanes


def shown(table: LaneTable) -> list[int]:
    return [lane for first, last, lane in table.ranges() for _ in range(first, last + 1)]


@given(PIECES)
def test_a_table_knows_the_lane_of_each_offset_also_out_of_its_file(pieces: list[tuple[int, int]]) -> None:
    table, lanes = table_of(pieces)
    again = LaneTable.decode(table.encode(), BASE)
    for each in (table, again):
        assert shown(each) == lanes
        assert (each.position, each.next_offset, each.last_batch) == (
            table.position,
            BASE + len(lanes),
            table.last_batch,
        )
    assert again.encode() == table.encode()
    assert table.range_count == 1 + sum(one != other for one, other in pairwise(lanes))


@given(PIECES, PIECES, st.booleans())
def test_a_table_goes_on_with_a_continuation(
    before: list[tuple[int, int]], after: list[tuple[int, int]], is_read: bool
) -> None:
    table, lanes = table_of(before)
    if is_read:
        table = LaneTable.decode(table.encode(), BASE)
    following = table.continuation()
    for size, lane in after:
        following.add(BASE + len(lanes), BASE + len(lanes) + size - 1, lane)
        lanes += [lane] * size
    table.extend(following)
    assert shown(table) == lanes
    assert table.range_count == table_of([(1, lane) for lane in lanes])[0].range_count


@given(PIECES, st.integers(BASE - 5, BASE + 250), st.sampled_from(LANES))
def test_the_next_range_of_a_lane(pieces: list[tuple[int, int]], offset: int, lane: int) -> None:
    table, lanes = table_of(pieces)
    wanted = [BASE + at for at, each in enumerate(lanes) if each == lane and BASE + at >= offset]
    found = table.next_range(lane, offset)
    if not wanted:
        assert found is None
        return
    first = last = wanted[0]
    while last + 1 in wanted:
        last += 1
    assert found == (first, last)


def test_offsets_without_a_record_are_in_the_lane_before_them() -> None:
    table = LaneTable.empty(BASE)
    table.fill(BASE + 2)
    table.add(BASE + 4, BASE + 4, 3)
    table.fill(BASE + 6)
    table.add(BASE + 8, BASE + 8, 1)
    assert [*table.ranges()] == [(BASE, BASE + 3, 0), (BASE + 4, BASE + 7, 3), (BASE + 8, BASE + 8, 1)]


@given(PIECES, st.data())
def test_any_damage_is_noticed(pieces: list[tuple[int, int]], data: st.DataObject) -> None:
    encoded = bytearray(table_of(pieces)[0].encode())
    if data.draw(st.booleans()):
        position = data.draw(st.integers(0, len(encoded) - 1))
        encoded[position] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del encoded[data.draw(st.integers(0, len(encoded) - 1)) :]
    with pytest.raises(DamagedIndex):
        LaneTable.decode(bytes(encoded), BASE)


@given(PIECES, st.integers(0, 1 << 40).filter(lambda base: base != BASE))
def test_the_index_of_another_segment_is_refused(pieces: list[tuple[int, int]], base_offset: int) -> None:
    with pytest.raises(DamagedIndex):
        LaneTable.decode(table_of(pieces)[0].encode(), base_offset)


@given(st.binary(max_size=400))
@example(b"")
@example(bytes(80))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    for candidate in (data, data + crc32c(data).to_bytes(4, "little")):
        with suppress(DamagedIndex):
            pytest.fail(f"taken for an index: {LaneTable.decode(candidate, BASE)}")


@given(PIECES, st.data())
def test_bytes_with_a_right_checksum_are_checked_as_well(pieces: list[tuple[int, int]], data: st.DataObject) -> None:
    """Whatever a file claims, reading it ends, and gives ranges of this segment or DamagedIndex."""
    encoded = bytearray(table_of(pieces)[0].encode()[:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(encoded) - 1))
        encoded[position] = data.draw(st.integers(0, 255))
    encoded += crc32c(bytes(encoded)).to_bytes(4, "little")
    try:
        table = LaneTable.decode(bytes(encoded), BASE)
    except DamagedIndex:
        return
    for lane in LANES:
        offset, seen = BASE, 0
        while (found := table.next_range(lane, offset)) is not None:
            assert BASE <= found[0] <= found[1] < table.next_offset
            offset, seen = found[1] + 1, seen + 1
        assert seen == len(table.firsts[lane])
