"""Every case still runs on this broker and saves its figures. No test here asserts a speed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
# All cases except those of Spark, which take minutes; each line is one run.
THEMES = (
    ("sizes", "partitions", "codecs", "acks"),
    ("produce-raw", "produce-disk", "fetch-raw", "memory", "disk"),
    ("fan-out", "catch-up", "cold-read"),
    ("requests-os", "requests-ack", "requests-at-rate", "flush"),
    ("latency-raw", "latency-librdkafka", "latency-beside-bulk", "latency-beside-large-batches"),
    ("start", "start-partitions", "recovery"),
    ("tls-bulk", "tls-requests", "tls-handshakes", "tls-memory", "access"),
    ("delays", "delays-pending"),
    ("group-reload", "offset-commit", "rebalance-librdkafka", "fetch-committed"),
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def smoke(*cases: str, directory: Path) -> dict[str, Any]:
    path = directory / "result.json"
    chosen = [word for case in cases for word in ("--case", case)]
    finished = run("--smoke", "--system", "headwater", *chosen, "--output", str(path))
    assert finished.returncode == 0, finished.stderr
    return json.loads(path.read_text())


@pytest.mark.parametrize("cases", THEMES, ids="+".join)
def test_cases_run_and_are_saved(cases: tuple[str, ...], tmp_path: Path) -> None:
    result = smoke(*cases, directory=tmp_path)

    assert {saved["name"] for saved in result["cases"]} == set(cases)
    for saved in result["cases"]:
        # The kernel counts CPU time in ticks, and blocks only once it has allocated them.
        exact = [figure for figure in saved["figures"] if "CPU" not in figure["name"] and saved["name"] != "disk"]
        assert all(figure["median"] > 0 for figure in exact), saved["name"]
        assert saved["figures"]
    assert result["machine"]["cores"] == str(os.cpu_count())
    assert "serve" in result["systems"]["headwater"]["command"]


def test_a_figure_is_saved_with_its_goal_and_its_resources(tmp_path: Path) -> None:
    [saved] = smoke("latency-raw", directory=tmp_path)["cases"]

    figures = {figure["name"]: figure for figure in saved["figures"]}
    assert figures["1000/s p99"]["goal"] == {"at most": 2.2}
    assert figures["1000/s p99"]["resources"]["broker_resident_bytes"] > 1_000_000


@pytest.mark.parametrize("case", ["rebalance-classic", "rebalance-consumer"])
def test_rebalances_are_measured_while_members_come_and_go(case: str, tmp_path: Path) -> None:
    [saved] = smoke(case, directory=tmp_path)["cases"]

    figures = {figure["name"]: figure["median"] for figure in saved["figures"]}
    for phase in ("all join", "one joins", "one leaves", "one dies"):
        waited_ms = figures[f"3 members: {phase}: of it until heartbeats were due"]
        assert figures[f"3 members: {phase}"] > waited_ms >= 0
    # Three members had four partitions each. In the next-generation protocol each gives only one to the fourth member.
    assert figures.get("3 members: one joins: never revoked", 75) == 75
    assert saved["settings"]["group.initial.rebalance.delay.ms"] == "0"


def test_transactions_are_measured_beside_the_same_load_without_them(tmp_path: Path) -> None:
    [saved] = smoke("produce-transactions", directory=tmp_path)["cases"]

    figures = {figure["name"]: figure for figure in saved["figures"]}
    for name in ("100 B, 2 producers", "1024 B, 2 producers"):
        plain, transactions = figures[f"{name}: plain"]["median"], figures[f"{name}: transactions"]["median"]
        assert figures[f"{name}: ratio"]["median"] == pytest.approx(transactions / plain)


def test_an_unknown_case_is_refused_with_a_list_of_cases() -> None:
    finished = run("--case", "nonsense")

    assert finished.returncode == 2
    assert "latency-raw" in finished.stderr


def test_an_unknown_system_is_refused_with_a_list_of_systems() -> None:
    finished = run("--system", "nonsense")

    assert finished.returncode == 2
    assert "kafka-tuned" in finished.stderr
