"""Medians, goals and ratios to a peer."""

import pytest
from benchmarks.comparison import compare
from benchmarks.figures import Goal

from tests.bench.results import series


def test_a_series_is_judged_by_its_median() -> None:
    floor = series(10, 30, 20, goal=Goal(20, is_ceiling=False))
    ceiling = series(10, 30, 20, goal=Goal(19, is_ceiling=True))

    assert floor.median == 20
    assert floor.goal_met
    assert not ceiling.goal_met
    assert series(1).goal_met is None
    assert floor.typical.note == "round of 20"


def test_a_ratio_is_taken_round_by_round() -> None:
    [compared] = compare([series(10, 20, 90), series(20, 10, 30, system="kafka")])

    assert compared.ratios["kafka"].samples == [0.5, 2, 3]
    assert compared.ratios["kafka"].median == 2


def test_a_ratio_skips_rounds_in_which_the_peer_failed_or_measured_zero() -> None:
    [compared] = compare([series(10, 20, 30), series(0, 10, system="kafka")])
    [without] = compare([series(10), series(0, system="kafka")])

    assert compared.ratios["kafka"].samples == [2]
    assert without.ratios == {}


def test_there_is_no_ratio_without_both_sides() -> None:
    alone, theirs = compare([series(1, name="ours"), series(1, name="theirs", system="kafka")])

    assert not alone.ratios
    assert not theirs.ratios


def test_each_peer_has_a_ratio_of_its_own() -> None:
    [compared] = compare([series(4), series(2, system="kafka"), series(8, system="kafka-tuned")])

    assert {name: ratio.median for name, ratio in compared.ratios.items()} == {"kafka": 2, "kafka-tuned": 0.5}


@pytest.mark.parametrize(
    ("case", "name", "ours", "is_met"),
    [
        ("sizes", "1 KiB: produce", 1.1, True),
        ("sizes", "1 KiB: produce", 0.9, False),
        ("sizes", "1 KiB: produce, broker CPU", 0.7, False),
        ("sizes", "1 KiB: produce, client CPU", 0.7, None),
        ("latency-raw", "1000/s p99", 0.9, True),
        ("latency-raw", "1000/s p50", 0.9, None),
        ("start-partitions", "100 partitions: start to first ack", 0.2, False),
        ("memory", "idle", 0.1, True),
    ],
)
def test_a_ratio_has_the_goal_of_its_kind_of_figure(case: str, name: str, ours: float, is_met: bool | None) -> None:
    [compared] = compare([series(ours, case=case, name=name), series(1, case=case, name=name, system="kafka")])

    assert compared.goal_met is is_met


def test_rates_should_be_high_and_all_other_figures_low() -> None:
    rate, time, memory = compare([series(1, name=unit, unit=unit) for unit in ("records/s", "ms", "MB")])

    assert rate.is_more_better
    assert not time.is_more_better
    assert not memory.is_more_better
