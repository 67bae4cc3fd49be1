"""`make demo`: a broker of its own, 200,000 orders through a real Kafka client, all of them checked, a clean stop."""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headwater.client.partitioner import partition_for_key

TOPIC = "orders"
PARTITIONS = 6
CUSTOMERS = 5_000
ITEMS = ("coffee", "tea", "bread", "honey", "apples", "cheese", "olives")
FIRST_ORDER_MS = 1_750_000_000_000
TIMEOUT_S = 60.0

console = Console()


@dataclass(frozen=True, slots=True)
class Order:
    key: bytes
    value: bytes


@dataclass(slots=True)
class Received:
    """What came back from one partition."""

    orders: int = 0
    bytes: int = 0
    customers: int = 0


def make_orders(count: int) -> list[Order]:
    """The same orders each time; the customer is the key, so that one customer's orders keep their sequence."""
    random = Random(7)
    orders: list[Order] = []
    for number in range(count):
        customer = f"customer-{random.randrange(CUSTOMERS):04}"
        order = {
            "order": number,
            "customer": customer,
            "item": random.choice(ITEMS),
            "quantity": random.randint(1, 9),
            "price": random.randint(100, 9_999) / 100,
            "time": FIRST_ORDER_MS + number * 20,
        }
        orders.append(Order(customer.encode(), json.dumps(order).encode()))
    return orders


@contextmanager
def running_broker(directory: Path) -> Generator[str]:
    """Gives the address to connect to; at the end the broker is told to stop, as a service manager does it."""
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
            console.print(f"broker   ready on {address} after {time.perf_counter() - started:.2f} s")
            yield address
            stopping = time.perf_counter()
            broker.send_signal(signal.SIGTERM)
            code = broker.wait(TIMEOUT_S)
            if code or "stopped cleanly" not in log.read_text():
                raise SystemExit(f"the broker did not stop cleanly (exit code {code}):\n{log.read_text()}")
            console.print(f"broker   stopped cleanly after {time.perf_counter() - stopping:.2f} s, exit code {code}")
        finally:
            broker.kill()


def create_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        created.result(TIMEOUT_S)
    console.print(f"topic    {TOPIC} with {PARTITIONS} partitions")


def produce(address: str, orders: list[Order], progress: Progress) -> float:
    """Gives the seconds until the last acknowledgement."""
    failures: list[KafkaError] = []
    acknowledged = 0
    task = progress.add_task("produce", total=len(orders))

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        acknowledged += 1
        if error is not None:
            failures.append(error)

    # Idempotent: a retry never writes an order twice. Partitioned as the Java client does it.
    settings = {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 20}
    producer = Producer({"bootstrap.servers": address, **settings})
    started = time.perf_counter()
    for number, order in enumerate(orders):
        while True:
            try:
                producer.produce(TOPIC, key=order.key, value=order.value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 500 == 0:
            producer.poll(0)
            progress.update(task, completed=acknowledged)
    while producer.flush(0.1):
        progress.update(task, completed=acknowledged)
        if time.perf_counter() - started > TIMEOUT_S:
            raise SystemExit(f"only {acknowledged} of {len(orders)} orders were acknowledged")
    seconds = time.perf_counter() - started
    progress.update(task, completed=acknowledged)
    if failures:
        raise SystemExit(f"{len(failures)} orders were refused: {failures[0]}")
    return seconds


def consume(address: str, count: int, progress: Progress) -> tuple[list[Message], float]:
    task = progress.add_task("consume", total=count)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "demo", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    messages: list[Message] = []
    started = time.perf_counter()
    while len(messages) < count:
        messages += consumer.consume(5_000, timeout=0.1)
        progress.update(task, completed=len(messages))
        if time.perf_counter() - started > TIMEOUT_S:
            raise SystemExit(f"only {len(messages)} of {count} orders came back")
    seconds = time.perf_counter() - started
    # Nothing else is there: what came back twice would be behind the last.
    messages += consumer.consume(1, timeout=0.2)
    consumer.close()
    return messages, seconds


def check(orders: list[Order], messages: list[Message]) -> dict[int, Received]:
    """Every order exactly once, byte for byte, on its key's partition, in sequence."""
    received = {partition: Received() for partition in range(PARTITIONS)}
    customers: dict[int, set[bytes]] = {partition: set() for partition in range(PARTITIONS)}
    last: dict[int, int] = {}
    seen: set[int] = set()
    for message in messages:
        key, value, partition = message.key(), message.value(), message.partition()
        if message.error() is not None or not isinstance(key, bytes) or value is None or partition is None:
            raise SystemExit(f"an unexpected message: {message.error()}")
        number = json.loads(value)["order"]
        assert number not in seen, f"order {number} came back twice"
        assert orders[number] == Order(key, value), f"order {number} came back changed"
        assert partition == partition_for_key(key, PARTITIONS), f"order {number} is on the wrong partition"
        assert number > last.get(partition, -1), f"order {number} is out of sequence"
        seen.add(number)
        last[partition] = number
        received[partition].orders += 1
        received[partition].bytes += len(key) + len(value)
        customers[partition].add(key)
    assert len(seen) == len(orders), f"{len(orders) - len(seen)} orders are missing"
    for partition, keys in customers.items():
        received[partition].customers = len(keys)
    return received


def show(received: dict[int, Received], produce_s: float, consume_s: float) -> None:
    table = Table("partition", "orders", "customers", "bytes", show_footer=True)
    for column in table.columns:
        column.justify = "right"
    for partition, found in received.items():
        table.add_row(str(partition), f"{found.orders:,}", f"{found.customers:,}", f"{found.bytes:,}")
    orders = sum(found.orders for found in received.values())
    total_bytes = sum(found.bytes for found in received.values())
    customers = sum(found.customers for found in received.values())
    for column, total in zip(table.columns, ("all", f"{orders:,}", f"{customers:,}", f"{total_bytes:,}"), strict=True):
        column.footer = total
    console.print(table)
    for name, seconds in (("produce", produce_s), ("consume", consume_s)):
        rate = f"{orders / seconds:,.0f} orders/s, {total_bytes / seconds / 1e6:.1f} MB/s"
        console.print(f"{name}  {rate} ({seconds:.2f} s)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=200_000, help="how many orders to send (default: 200000)")
    orders = make_orders(parser.parse_args().orders)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as directory, running_broker(Path(directory)) as address:
        create_topic(address)
        with Progress(*columns, console=console) as progress:
            produce_s = produce(address, orders, progress)
            messages, consume_s = consume(address, len(orders), progress)
        received = check(orders, messages)
        console.print("checked  every order came back once, unchanged, in sequence, where its key belongs")
        show(received, produce_s, consume_s)


if __name__ == "__main__":
    main()
