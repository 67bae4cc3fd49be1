"""`make demo`: starts a broker, sends 200,000 orders, runs a streaming pipeline in Spark, checks and draws its result.

A real Kafka client sends the orders and reads them back. Spark reads them as a stream, adds up the revenue of each item
in each minute and writes every closed window exactly once to a second topic.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from headwater.protocol.partitioner import partition_for_key
from headwater.spark import session
from orders import ITEMS, TIMEOUT_S, Record, make_orders, produce, progress_bar
from picture import draw
from pipelines import windowed_revenue

ORDERS, REVENUE = "orders", "revenue"
PARTITIONS = 6
WINDOW = timedelta(minutes=1)
# Partitions are not read in step, so the times within one batch may differ by up to this much.
LATENESS = timedelta(minutes=1)
PIPELINE_TIMEOUT_S = 150.0
# The demo runs for a minute, and ends before Java's second compiler (C2) would pay off.
SPARK_CONFIG = {"spark.log.level": "ERROR", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

console = Console()


@dataclass(frozen=True, slots=True)
class Revenue:
    orders: int
    total: Decimal


@dataclass(frozen=True, slots=True)
class PipelineTime:
    """The seconds that all batches took, and orders per second of each batch.

    In the first one Spark compiles its code and starts its Python processes.
    """

    seconds: float
    rates: list[float]
    warm_rate: float


Windows = dict[tuple[datetime, str], Revenue]


@contextmanager
def running_broker(directory: Path) -> Generator[str]:
    """Yields the broker's address; at exit stops the broker with SIGTERM, as a service manager does."""
    command = [sys.executable, "-m", "headwater.cli.main", "serve", "--data-dir", str(directory / "data")]
    command += ["--kafka", "127.0.0.1:0", "--set", "headwater.log.format=human"]
    log = directory / "log.txt"
    started = time.perf_counter()
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as broker,
    ):
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline()
            if not ready.startswith("ready "):
                raise SystemExit(f"the broker did not start:\n{log.read_text()}")
            address = ready.split("kafka=")[1].split()[0]
            console.print(f"broker    ready on {address} after {time.perf_counter() - started:.2f} s")
            yield address
            stopping = time.perf_counter()
            broker.send_signal(signal.SIGTERM)
            code = broker.wait(TIMEOUT_S)
            if code or "stopped cleanly" not in log.read_text():
                raise SystemExit(f"the broker did not stop cleanly (exit code {code}):\n{log.read_text()}")
            console.print(f"broker    stopped cleanly after {time.perf_counter() - stopping:.2f} s, exit code {code}")
        finally:
            broker.kill()


@contextmanager
def running_spark() -> Generator[SparkSession]:
    started = time.perf_counter()
    with console.status("Spark is starting"):
        spark = session("headwater-demo", config=SPARK_CONFIG)
    console.print(f"spark     {spark.version} ready after {time.perf_counter() - started:.1f} s")
    try:
        yield spark
    finally:
        with console.status("Spark is stopping"):
            spark.stop()


def create_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (ORDERS, REVENUE)]).values():
        created.result(TIMEOUT_S)
    console.print(f"topics    {ORDERS} and {REVENUE} with {PARTITIONS} partitions each")


def consume(address: str, topic: str, progress: Progress, count: int) -> tuple[list[Message], float]:
    """All committed messages of a topic, and the seconds that reading took. Fails unless there are at least `count`."""
    task = progress.add_task("consume", total=count)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "demo", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    messages: list[Message] = []
    started = time.perf_counter()
    while len(messages) < count:
        messages += consumer.consume(5_000, timeout=0.1)
        progress.update(task, completed=len(messages))
        if time.perf_counter() - started > TIMEOUT_S:
            raise SystemExit(f"only {len(messages)} of {count} messages of {topic} came back")
    seconds = time.perf_counter() - started
    # There should be no more messages: a duplicate would come after the last one.
    messages += consumer.consume(1, timeout=0.2)
    consumer.close()
    return messages, seconds


def check_orders(orders: list[Record], messages: list[Message]) -> Counter[int]:
    """Check that each order came back once, unchanged, on its key's partition and in order. Returns counts by
    partition."""
    last: dict[int, int] = {}
    counts: Counter[int] = Counter()
    for message in messages:
        key, value, partition = message.key(), message.value(), message.partition()
        if message.error() is not None or not isinstance(key, bytes) or value is None or partition is None:
            raise SystemExit(f"an unexpected message: {message.error()}")
        number = json.loads(value)["order"]
        assert orders[number] == Record(key, value), f"order {number} came back changed"
        assert partition == partition_for_key(key, PARTITIONS), f"order {number} is on the wrong partition"
        assert number > last.get(partition, -1), f"order {number} is out of sequence, or there twice"
        last[partition] = number
        counts[partition] += 1
    assert counts.total() == len(orders), f"{len(orders) - counts.total()} orders are missing"
    return counts


def run_pipeline(spark: SparkSession, address: str, checkpoint: Path, progress: Progress, count: int) -> PipelineTime:
    """Process all orders in several micro-batches."""
    task = progress.add_task("pipeline", total=count)
    pipeline = windowed_revenue.build(
        spark,
        address,
        orders=ORDERS,
        revenue=REVENUE,
        lateness=f"{LATENESS.seconds} seconds",
        orders_per_batch=max(1, count // 5),
    )
    started = time.perf_counter()
    query = pipeline.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    while not query.awaitTermination(1):
        progress.update(task, completed=sum(batch.numInputRows for batch in query.recentProgress))
        if time.perf_counter() - started > PIPELINE_TIMEOUT_S:
            raise SystemExit(f"the pipeline takes too long; its last batch: {query.lastProgress}")
    seconds = time.perf_counter() - started
    batches = [(batch.numInputRows, batch.batchDuration / 1000) for batch in query.recentProgress if batch.numInputRows]
    progress.update(task, completed=sum(rows for rows, _ in batches))
    warm = batches[1:] or batches
    return PipelineTime(
        seconds,
        [rows / batch_s for rows, batch_s in batches],
        sum(rows for rows, _ in warm) / sum(batch_s for _, batch_s in warm),
    )


def expected_windows(orders: list[Record]) -> Windows:
    """The correct result of the pipeline, computed without Spark."""
    counts: Counter[tuple[datetime, str]] = Counter()
    totals: dict[tuple[datetime, str], Decimal] = {}
    for record in orders:
        order = json.loads(record.value, parse_float=Decimal)
        moment = datetime.fromisoformat(order["time"])
        window = moment.replace(second=0, microsecond=0), order["item"]
        counts[window] += 1
        totals[window] = totals.get(window, Decimal(0)) + order["quantity"] * order["price"]
    return {window: Revenue(count, totals[window]) for window, count in counts.items()}


def check_windows(expected: Windows, messages: list[Message]) -> Windows:
    """Check that each written window is correct and was written once. Returns the written windows."""
    found: Windows = {}
    for message in messages:
        if message.error() is not None or (value := message.value()) is None:
            raise SystemExit(f"an unexpected message: {message.error()}")
        row = json.loads(value, parse_float=Decimal)
        window = datetime.fromisoformat(row["start"]), row["item"]
        assert window not in found, f"the window {window} was written twice"
        found[window] = Revenue(row["orders"], Decimal(row["revenue"]))
        assert found[window] == expected[window], f"the window {window} is wrong"
    return found


def closed_windows(expected: Windows, orders: list[Record]) -> Windows:
    """The windows that the watermark has passed. It is the time of the last order minus the allowed lateness."""
    last = max(datetime.fromisoformat(json.loads(record.value)["time"]) for record in orders)
    watermark = last - LATENESS
    return {window: revenue for window, revenue in expected.items() if window[0] + WINDOW <= watermark}


def show(windows: Windows, minutes: int) -> None:
    table = Table("item", "orders", "revenue", "per minute", show_footer=True)
    for column in table.columns[1:]:
        column.justify = "right"
    rows = {item: [each for (_, name), each in windows.items() if name == item] for item in ITEMS}
    rows["all"] = list(windows.values())
    for item, found in rows.items():
        total = sum((each.total for each in found), Decimal(0))
        cells = f"{sum(each.orders for each in found):,}", f"{total:,.2f}", f"{total / max(1, minutes):,.2f}"
        if item != "all":
            table.add_row(item, *cells)
            continue
        for column, footer in zip(table.columns, (item, *cells), strict=True):
            column.footer = footer
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=200_000, help="how many orders to send (default: 200000)")
    parser.add_argument("--picture", type=Path, default=Path("demo.svg"), help="where to draw (default: demo.svg)")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    orders = make_orders(arguments.orders)
    size = sum(len(order.key) + len(order.value) for order in orders)
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as name, running_broker(Path(name)) as address:
        create_topics(address)
        with progress_bar(console) as progress:
            produce_s = produce(address, ORDERS, orders, progress, name="produce", total=len(orders))
            messages, consume_s = consume(address, ORDERS, progress, len(orders))
        counts = check_orders(orders, messages)
        console.print("checked   every order came back once, unchanged, in sequence, where it belongs")
        console.print("          per partition: " + ", ".join(f"{counts[each]:,}" for each in range(PARTITIONS)))
        expected = expected_windows(orders)
        closed = closed_windows(expected, orders)
        with running_spark() as spark:
            with progress_bar(console) as progress:
                pipeline = run_pipeline(spark, address, Path(name) / "checkpoint", progress, len(orders))
                messages, _ = consume(address, REVENUE, progress, len(closed))
            windows = check_windows(expected, messages)
        assert windows.keys() == closed.keys(), "the windows that are closed are those that were written"
        minutes = sorted({start for start, _ in windows})
        still_open = len({start for start, _ in expected}) - len(minutes)
        console.print(
            f"checked   {len(minutes)} minutes of {len(ITEMS)} items, each written once and right\n"
            f"          {still_open} more minutes are open: orders may be late"
        )
        show(windows, len(minutes))
        for step, seconds in (("produce", produce_s), ("consume", consume_s), ("pipeline", pipeline.seconds)):
            rate = f"{len(orders) / seconds:,.0f} orders/s, {size / seconds / 1e6:.1f} MB/s"
            console.print(f"{step:<9} {rate} ({seconds:.2f} s)")
        console.print(f"          {pipeline.warm_rate:,.0f} orders/s once Spark is warm, after the first batch")
    draw(
        arguments.picture,
        "Revenue per minute and item",
        [f"{minute:%H:%M}" for minute in minutes],
        {item: [float(windows[minute, item].total) for minute in minutes] for item in ITEMS},
        "€",
    )
    rates = arguments.picture.with_stem(f"{arguments.picture.stem}-rates")
    batches = [f"batch {number}" for number in range(1, len(pipeline.rates) + 1)]
    labels = ["all", *batches[:1], "later batches", *batches[1:]]
    figures = [len(orders) / pipeline.seconds, *pipeline.rates[:1], pipeline.warm_rate, *pipeline.rates[1:]]
    draw(rates, "Orders a second in the pipeline: with the start of Spark, and warm", labels, {"rate": figures}, "/s")
    console.print(f"pictures  {arguments.picture}, {rates}")
    console.print(f"done      after {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
