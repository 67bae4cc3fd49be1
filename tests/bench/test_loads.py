"""Parts of loads: percentiles, the check that a group has settled, generated values."""

import zlib

from benchmarks.loads.latency import summarize
from benchmarks.loads.rebalance import is_settled
from benchmarks.loads.values import values
from benchmarks.processes import Usage


def test_percentiles_leave_out_the_warm_up() -> None:
    cold, warm = [900_000_000] * 200, [index * 1_000_000 for index in range(1, 801)]

    seen = summarize(cold + warm, rate=1_000, seconds=1.0, client=Usage(0, 0, 0))

    assert (seen.p50_ms, seen.p99_ms, seen.p999_ms) == (401, 793, 800)


def test_a_group_is_settled_when_each_partition_has_one_owner_and_each_member_its_share() -> None:
    assert is_settled([frozenset({0, 1}), frozenset({2})], 3)
    assert not is_settled([frozenset({0, 1}), frozenset({1})], 3), "two owners, and none"
    assert not is_settled([frozenset({0, 1, 2}), frozenset()], 3), "not shared yet"


def test_values_have_the_requested_size_and_compress_like_text() -> None:
    made = values(1024, 20)

    assert {len(value) for value in made} == {1024}
    assert made == values(1024, 20), "every run sends the same"
    assert 0.1 < len(zlib.compress(b"".join(made))) / (20 * 1024) < 0.6
    assert len(values(10, 1)[0]) == 10
