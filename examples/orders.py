"""Orders of a small shop, the same in every run: the input of the demo and of the recipes in examples/pipelines.

    python examples/orders.py --bootstrap localhost:9092

fills the topics `orders` and `payments`, and the topic `customers` with a record for each customer.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import click
from confluent_kafka import KafkaError, Message, Producer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

CUSTOMERS = 5_000
# The items with their relative frequencies.
ITEMS = {"coffee": 9, "bread": 8, "apples": 6, "tea": 5, "cheese": 4, "olives": 3, "honey": 2}
FIRST_ORDER = datetime(2026, 5, 1, 9, tzinfo=UTC)
TIME_BETWEEN = timedelta(milliseconds=20)
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes
    value: bytes


def make_orders(count: int) -> list[Record]:
    """The key is the customer, so that each customer's orders keep their order."""
    random = Random(7)
    items, weights = list(ITEMS), list(ITEMS.values())
    orders: list[Record] = []
    for number in range(count):
        customer = _customer(random.randrange(CUSTOMERS))
        order = {
            "order": number,
            "customer": customer,
            "item": random.choices(items, weights)[0],
            "quantity": random.randint(1, 9),
            "price": random.randint(100, 9_999) / 100,
            "time": _text(FIRST_ORDER + number * TIME_BETWEEN),
        }
        orders.append(Record(customer.encode(), json.dumps(order).encode()))
    return orders


def make_customers() -> list[Record]:
    random = Random(11)
    return [
        Record(
            _customer(number).encode(),
            json.dumps(
                {"country": random.choice(("AT", "CH", "DE")), "tier": random.choice(("basic", "gold"))}
            ).encode(),
        )
        for number in range(CUSTOMERS)
    ]


def make_payments(count: int) -> list[Record]:
    """A payment for 95 % of the orders, up to five minutes after the order."""
    random = Random(13)
    payments: list[Record] = []
    for number in range(count):
        paid = FIRST_ORDER + number * TIME_BETWEEN + timedelta(seconds=random.randint(1, 300))
        if random.random() < 0.95:
            payment = {"paid_order": number, "method": random.choice(("card", "transfer")), "paid": _text(paid)}
            payments.append(Record(b"%d" % number, json.dumps(payment).encode()))
    return payments


def progress_bar(console: Console) -> Progress:
    columns = TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=console)


def produce(address: str, topic: str, records: Iterable[Record], progress: Progress, *, name: str, total: int) -> float:
    """Send the records. Returns the seconds until the last acknowledgement."""
    failures: list[KafkaError] = []
    acknowledged = 0
    task = progress.add_task(name, total=total)

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        acknowledged += 1
        if error is not None:
            failures.append(error)

    # Idempotent, so that a retry never writes a record twice. The partitioner is the Java client's.
    settings = {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 20}
    producer = Producer({"bootstrap.servers": address, **settings})
    started = time.perf_counter()
    for number, record in enumerate(records):
        while True:
            try:
                producer.produce(topic, key=record.key, value=record.value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 500 == 0:
            producer.poll(0)
            progress.update(task, completed=acknowledged)
    while producer.flush(0.1):
        progress.update(task, completed=acknowledged)
        if time.perf_counter() - started > TIMEOUT_S:
            raise SystemExit(f"only {acknowledged} of {total} records were acknowledged")
    seconds = time.perf_counter() - started
    progress.update(task, completed=acknowledged)
    if failures:
        raise SystemExit(f"{len(failures)} records were refused: {failures[0]}")
    return seconds


def _customer(number: int) -> str:
    return f"customer-{number:04}"


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--count", default=20_000, show_default=True, help="How many orders.")
def main(bootstrap: str, count: int) -> None:
    topics = {"customers": make_customers(), "orders": make_orders(count), "payments": make_payments(count)}
    with progress_bar(Console()) as progress:
        for topic, records in topics.items():
            produce(bootstrap, topic, records, progress, name=topic, total=len(records))


if __name__ == "__main__":
    main()
