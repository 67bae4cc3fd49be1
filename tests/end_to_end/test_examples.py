"""The examples run as users run them: each in its own process."""

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.testing import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 300


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


def test_two_members_work_on_one_queue() -> None:
    with Broker() as broker:
        output = run(str(EXAMPLES / "work_queue.py"), broker.bootstrap_servers)

    assert output == "59 jobs are done, 6 of them at the second attempt, 1 was hopeless\n"


def test_each_order_has_one_invoice_although_the_worker_was_killed() -> None:
    with Broker() as broker:
        output = run(str(EXAMPLES / "atomic_worker.py"), broker.bootstrap_servers)

    assert output == "1 worker was killed; 20 orders, 20 invoices, 20 of them different\n"


def test_the_example_test_passes() -> None:
    output = run("-m", "pytest", "-p", "no:cacheprovider", "-q", str(EXAMPLES / "test_with_headwater.py"))

    assert "2 passed" in output


@pytest.mark.spark
def test_the_demo_checks_every_order_and_window_and_stops_cleanly(tmp_path: Path) -> None:
    picture = tmp_path / "pictures" / "demo.svg"
    output = run(str(EXAMPLES / "demo.py"), "--orders", "9100", "--picture", str(picture))

    assert "every order came back once" in output
    # A little more than three minutes of orders, from nine o'clock on. The last minute is the allowed lateness.
    assert "2 minutes of 7 items, each written once and right" in output
    assert "stopped cleanly" in output
    # The last row of the table adds up all items.
    assert any(row.split("│")[1].split() == ["all"] and "6,000" in row for row in output.splitlines() if "│" in row)
    assert all(f"09:0{minute} coffee" in picture.read_text() for minute in range(2))
    assert "orders/s once Spark is warm" in output
    rates = (tmp_path / "pictures" / "demo-rates.svg").read_text()
    assert all(f"{label} rate: " in rates for label in ("all", "batch 1", "later batches", "batch 2"))


def test_orders_payments_and_customers_are_there_for_the_recipes() -> None:
    with Broker() as broker:
        run(str(EXAMPLES / "orders.py"), "--bootstrap", broker.bootstrap_servers, "--count", "100")

        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "x"})
        topics = ("orders", "payments", "customers")
        ends = {
            topic: sum(consumer.get_watermark_offsets(TopicPartition(topic, each))[1] for each in range(3))
            for topic in topics
        }
        consumer.close()
    # Two of them twice, and one more at the end.
    assert ends["orders"] == 103
    assert 80 < ends["payments"] < 101
    assert ends["customers"] == 5_000
