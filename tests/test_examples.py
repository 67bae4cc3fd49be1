"""The examples run as their readers run them: each in a process of its own."""

import subprocess
import sys
from pathlib import Path

from headwater.testing import Broker

EXAMPLES = Path(__file__).parent.parent / "examples"
TIMEOUT_S = 60


def run(*arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_the_smallest_example_reads_what_it_sent() -> None:
    with Broker() as broker:
        output = run(str(EXAMPLES / "produce_consume.py"), broker.bootstrap_servers)

    assert output.splitlines() == ["0 Hello, Ann!", "1 Hello, Ben!", "2 Hello, Cleo!"]


def test_two_members_share_the_work_and_one_takes_over() -> None:
    with Broker() as broker:
        output = run(str(EXAMPLES / "share_work.py"), broker.bootstrap_servers)

    assert output.splitlines() == [
        "ann has 3 partitions, ben has 3",
        "ben has 6 partitions, and every job is done",
    ]


def test_the_example_of_a_test_passes() -> None:
    output = run("-m", "pytest", "-p", "no:cacheprovider", "-q", str(EXAMPLES / "test_with_headwater.py"))

    assert "2 passed" in output


def test_the_demo_checks_every_order_and_stops_cleanly() -> None:
    output = run(str(EXAMPLES / "demo.py"), "--orders", "3000")

    assert "every order came back once" in output
    assert "stopped cleanly" in output
    # The last row of the table adds up all partitions.
    assert any(row.split("│")[1].split() == ["all"] and "3,000" in row for row in output.splitlines() if "│" in row)
