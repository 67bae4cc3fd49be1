"""The benchmarks still run, and say what they saw. What they say of the speed is nobody's assertion here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.figures import Case, Figure, Goal, Series
from benchmarks.loads.latency import summarize
from benchmarks.loads.rebalance import is_settled
from benchmarks.processes import Meter, Usage, cpu_seconds, family_cpu_seconds, resident_bytes
from benchmarks.report import table

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 120


def series(*values: float, goal: Goal | None = None) -> Series:
    made = Series("case", "headwater", goal)
    made.figures += [Figure("rate", "MB/s", value, note=f"round of {value}") for value in values]
    return made


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.mark.parametrize("case", ["produce-1k", "fetch-raw", "latency-raw", "start", "group-reload", "fetch-committed"])
def test_a_case_runs_and_is_saved_with_its_goal(case: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    finished = run("--smoke", "--case", case, "--output", str(path))

    assert finished.returncode == 0, finished.stderr
    result = json.loads(path.read_text())
    [saved] = result["cases"]
    assert saved["name"] == case
    assert all(figure["median"] > 0 for figure in saved["figures"] if "CPU" not in figure["name"])
    assert any(figure["goal"] for figure in saved["figures"])
    assert result["machine"]["cores"] == str(os.cpu_count())
    assert "serve" in result["systems"]["headwater"]["command"]


@pytest.mark.parametrize("case", ["rebalance-classic", "rebalance-consumer"])
def test_a_group_is_watched_while_members_come_and_go(case: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    finished = run("--smoke", "--case", case, "--output", str(path))

    assert finished.returncode == 0, finished.stderr
    [saved] = json.loads(path.read_text())["cases"]
    figures = {figure["name"]: figure["median"] for figure in saved["figures"]}
    for phase in ("all join", "one joins", "one leaves", "one dies"):
        waited_ms = figures[f"3 members: {phase}: of it until heartbeats were due"]
        assert figures[f"3 members: {phase}"] > waited_ms >= 0
    # Three members had four partitions each, and in the next-generation protocol give but one each to the fourth.
    assert figures.get("3 members: one joins: never revoked", 75) == 75
    assert saved["settings"]["group.initial.rebalance.delay.ms"] == "0"


@pytest.mark.parametrize("case", ["rebalance-librdkafka", "offset-commit"])
def test_a_case_of_groups_runs(case: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    finished = run("--smoke", "--case", case, "--output", str(path))

    assert finished.returncode == 0, finished.stderr
    [saved] = json.loads(path.read_text())["cases"]
    assert all(figure["median"] > 0 for figure in saved["figures"] if "CPU" not in figure["name"])


def test_transactions_are_measured_beside_the_same_without(tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    finished = run("--smoke", "--case", "produce-transactions", "--output", str(path))

    assert finished.returncode == 0, finished.stderr
    [saved] = json.loads(path.read_text())["cases"]
    figures = {figure["name"]: figure for figure in saved["figures"]}
    for name in ("100 B, 2 producers", "1024 B, 2 producers"):
        plain, transactions = figures[f"{name}: plain"]["median"], figures[f"{name}: transactions"]["median"]
        assert figures[f"{name}: ratio"]["median"] == pytest.approx(transactions / plain)


def test_a_group_is_settled_when_each_partition_has_one_owner_and_each_member_its_share() -> None:
    assert is_settled([frozenset({0, 1}), frozenset({2})], 3)
    assert not is_settled([frozenset({0, 1}), frozenset({1})], 3), "two owners, and none"
    assert not is_settled([frozenset({0, 1, 2}), frozenset()], 3), "not shared yet"


def test_an_unknown_case_is_refused_with_the_known_ones() -> None:
    finished = run("--case", "nonsense")

    assert finished.returncode == 2
    assert "produce-1k" in finished.stderr


def test_a_series_is_judged_by_its_median() -> None:
    floor = series(10, 30, 20, goal=Goal(20, is_ceiling=False))
    ceiling = series(10, 30, 20, goal=Goal(19, is_ceiling=True))

    assert floor.median == 20
    assert floor.goal_met
    assert not ceiling.goal_met
    assert series(1).goal_met is None
    assert floor.typical.note == "round of 20"


def test_the_table_shows_what_was_missed() -> None:
    case = Case("case", "what it does", lambda system, directory, scale: [])

    lines = table([case], [series(1234.5, goal=Goal(2000, is_ceiling=False))]).splitlines()

    assert "case: what it does" in lines
    assert lines[-1].split() == ["rate", "1,234", "1,234", "1,234", "MB/s", ">=", "2,000", "MISSED"]


def test_percentiles_leave_out_the_warm_up() -> None:
    cold, warm = [900_000_000] * 200, [index * 1_000_000 for index in range(1, 801)]

    seen = summarize(cold + warm, rate=1_000, seconds=1.0, client=Usage(0, 0, 0))

    assert (seen.p50_ms, seen.p99_ms, seen.p999_ms) == (401, 793, 800)


def test_the_meter_sees_the_work_of_this_process() -> None:
    meter = Meter.of_this_process()
    while meter.read().total_s < 0.02:
        sum(range(10_000))

    assert meter.read().busiest_s > 0
    assert cpu_seconds([os.getpid()]) >= 0.02
    assert resident_bytes([os.getpid()]) > 1_000_000
    assert resident_bytes([os.getpid()], "VmHWM") > 1_000_000


def test_a_family_has_used_what_its_children_used_also_after_their_end() -> None:
    before_s = family_cpu_seconds(os.getpid())

    # Ends when it has used so much itself.
    spin = "import time\nwhile time.process_time() < 0.1: pass"
    subprocess.run([sys.executable, "-c", spin], timeout=TIMEOUT_S, check=True)

    assert family_cpu_seconds(os.getpid()) - before_s >= 0.08
