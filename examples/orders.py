"""Orders of a small shop, the same in every run: the input of the demo and of the recipes in examples/pipelines.

    python examples/orders.py --bootstrap localhost:9092

fills the topics `orders` and `payments`, and the topic `customers` with a record for each customer. As in real topics
some orders are there twice, some are damaged, some are of unknown customers, and one in twenty is never paid.
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
# One in so many orders is sent twice, is damaged, or is of a customer that nobody knows.
TWICE, DAMAGED, UNKNOWN = 50, 200, 400
# An order stays unpaid if no payment came within the hour: the last order is later than that.
CLOSING = timedelta(hours=2)
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes
    value: bytes


def make_orders(count: int) -> list[Record]:
    """The key is the customer, so that each customer's orders keep their order."""
    random = Random(7)
    return [_order(random, number, FIRST_ORDER + number * TIME_BETWEEN) for number in range(count)]


def make_real_orders(count: int) -> list[Record]:
    """The same orders with what goes wrong in real topics, and one more at the end."""
    orders: list[Record] = []
    for number, order in enumerate(make_orders(count), 1):
        if number % UNKNOWN == 0:
            document = json.loads(order.value) | {"customer": "nobody"}
            orders.append(Record(b"nobody", json.dumps(document).encode()))
        elif number % DAMAGED == 1:
            orders.append(Record(order.key, order.value[: len(order.value) // 2]))
        else:
            orders.append(order)
        if number % TWICE == 0:
            # As a producer sends it that is not idempotent and misses an acknowledgement.
            orders.append(orders[-1])
    return [*orders, _order(Random(17), count, _closing(count))]


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


def make_real_payments(count: int) -> list[Record]:
    """With the payment of the last order, which tells that the hour of all others is over."""
    payment = {"paid_order": count, "method": "card", "paid": _text(_closing(count) + timedelta(minutes=1))}
    return [*make_payments(count), Record(b"%d" % count, json.dumps(payment).encode())]


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


def _order(random: Random, number: int, time: datetime) -> Record:
    customer = _customer(random.randrange(CUSTOMERS))
    order = {
        "order": number,
        "customer": customer,
        "item": random.choices(list(ITEMS), list(ITEMS.values()))[0],
        "quantity": random.randint(1, 9),
        "price": random.randint(100, 9_999) / 100,
        "time": _text(time),
    }
    return Record(customer.encode(), json.dumps(order).encode())


def _closing(count: int) -> datetime:
    return FIRST_ORDER + count * TIME_BETWEEN + CLOSING


def _customer(number: int) -> str:
    return f"customer-{number:04}"


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--count", default=20_000, show_default=True, help="How many orders.")
def main(bootstrap: str, count: int) -> None:
    topics = {"customers": make_customers(), "orders": make_real_orders(count), "payments": make_real_payments(count)}
    with progress_bar(Console()) as progress:
        for topic, records in topics.items():
            produce(bootstrap, topic, records, progress, name=topic, total=len(records))


if __name__ == "__main__":
    main()
