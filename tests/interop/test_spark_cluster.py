"""A windowed pipeline on a standalone cluster of two workers, of which one is killed on the way."""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.interop import windowed_revenue
from tests.interop.clients.confluent import Confluent
from tests.interop.exchange import Record
from tests.interop.spark_cluster import Cluster, environment
from tests.support.broker.processes import BrokerProcess
from tests.support.spark.java import OPTIONS

pytestmark = pytest.mark.interop

PARTITIONS = 2
# One a second; a micro-batch holds some minutes of them, and there are many micro-batches.
ORDERS, BATCH_ORDERS = 4800, 400
PRODUCTS = ("tea", "coffee", "cake")
FIRST_S = 1_700_000_040
MINUTE_S = 60
# Ends all minutes before it by its own time, and its own minute never.
LAST_S = FIRST_S + ORDERS + 3600
TIMEOUT_S = 900

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": " ".join(OPTIONS),
    "spark.sql.shuffle.partitions": "2",
    # Both workers take part from the beginning.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    directory = tmp_path / "cluster"
    directory.mkdir()
    with Cluster(directory, workers=2) as cluster:
        yield cluster


def _order(second: int, number: int) -> Record:
    moment = datetime.fromtimestamp(second, UTC).isoformat()
    order = {"product": PRODUCTS[number % len(PRODUCTS)], "cents": number % 700, "ordered_at": moment}
    return Record(None, json.dumps(order).encode())


def _expected() -> Counter[tuple[int, str, int, int]]:
    """Each minute and product once, with its orders and their sum."""
    orders: Counter[tuple[int, str]] = Counter()
    cents: Counter[tuple[int, str]] = Counter()
    for number in range(ORDERS):
        second = FIRST_S + number
        place = second - second % MINUTE_S, PRODUCTS[number % len(PRODUCTS)]
        orders[place] += 1
        cents[place] += number % 700
    return Counter((*place, orders[place], cents[place]) for place in orders)


class Revenue:
    """What a consumer sees that wants only what is committed."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.rows: Counter[tuple[int, str, int, int]] = Counter()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": topic,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def wait_for(self, count: int, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self.rows.total() < count and process.poll() is None:
            assert time.monotonic() < deadline, f"only {self.rows.total()} rows came"
            self.take(timeout_s=0.5)

    def take(self, *, timeout_s: float) -> bool:
        """Whether there was anything."""
        messages = self._consumer.consume(1000, timeout_s)
        for message in messages:
            assert message.error() is None
            row = json.loads(message.value() or b"")
            self.rows[row["minute"], row["product"], row["orders"], row["cents"]] += 1
        return bool(messages)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def revenue(broker: BrokerProcess, confluent: Confluent, topic: str) -> Iterator[Revenue]:
    confluent.create_topic(f"{topic}-revenue", PARTITIONS, {"retention.ms": "-1"})
    revenue = Revenue(broker.bootstrap_servers, f"{topic}-revenue")
    yield revenue
    revenue.close()


def test_a_windowed_pipeline_is_exactly_once_when_a_worker_is_killed(
    broker: BrokerProcess, confluent: Confluent, cluster: Cluster, revenue: Revenue, topic: str, tmp_path: Path
) -> None:
    confluent.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})
    for partition in range(PARTITIONS):
        numbers = range(partition, ORDERS, PARTITIONS)
        orders = [*(_order(FIRST_S + number, number) for number in numbers), _order(LAST_S, 0)]
        confluent.produce(topic, orders, partition=partition)
    # A pipeline keeps its state beside its script.
    script = tmp_path / "windowed_revenue.py"
    shutil.copy(windowed_revenue.__file__, script)
    command = [sys.executable, "-m", "headwater.cli.main", "pipeline", "run", str(script), "--master", cluster.url]
    for name, value in SETTINGS.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--bootstrap", broker.bootstrap_servers, "--", broker.bootstrap_servers, topic, f"{topic}-revenue"]
    command += [str(tmp_path / "checkpoint"), str(BATCH_ORDERS)]
    output = tmp_path / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment())
    try:
        revenue.wait_for(1, process)
        assert process.poll() is None, "the pipeline was done before a worker could be killed"
        killed = cluster.kill_worker(0)
        code = process.wait(TIMEOUT_S)
    finally:
        process.kill()
        process.wait()

    assert code == 0, output.read_text() + cluster.log()
    assert killed > 0, "the worker had no executor"
    revenue.wait_for(_expected().total(), process)
    while revenue.take(timeout_s=1):
        pass
    assert revenue.rows == _expected()
