"""Recipes from topics to topics: each keeps its promise with records that challenge it."""

import json
from collections.abc import Generator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from examples.pipelines import deduplicate, enrich_and_route, join_payments, sessionise, windowed_revenue
from examples.pipelines.sessionise import Session, merged
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from headwater.client.cluster import Cluster
from headwater.testing import Broker
from tests.spark.recipes.recipes import Sent, Topics, at, in_ms, order, run

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def bootstrap(headwater_broker: Broker) -> str:
    return headwater_broker.bootstrap_servers


@pytest.fixture
def topics(bootstrap: str) -> Generator[Topics]:
    with Cluster(bootstrap) as cluster:
        yield Topics(cluster)


def test_orders_are_enriched_and_routed_by_their_content(
    bootstrap: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    customers = f"{topic}.customers"
    topics.send(customers, [Sent("ann", b'{"country": "AT", "tier": "basic"}'), Sent("ben", b'{"country": "CH"}')])
    topics.send(customers, [Sent("ann", b'{"country": "AT", "tier": "gold"}')])
    topics.send(
        topic,
        [
            order(1, 0, customer="ann", quantity=2, price=99.99),
            order(2, 0, customer="ben", quantity=3, price=100),
            order(3, 0, customer="zoe"),
            Sent("x", b"{no order"),
        ],
    )
    arguments = ("--orders", topic, "--customers", customers, "--checkpoint", tmp_path / "checkpoint")

    run(enrich_and_route.main, bootstrap, *arguments)

    standard = topics.documents(f"{topic}.standard")
    assert [(each["order"], each["country"], each["tier"], each["total"]) for each in standard] == [
        (1, "AT", "gold", 199.98)
    ]
    assert [each["order"] for each in topics.documents(f"{topic}.large")] == [2]
    dead = {record.key: record for record in topics.received(f"{topic}.dead-letter")}
    assert dead[b"x"].value == b"{no order", "as it came"
    assert dict(dead[b"zoe"].headers) == {"reason": b"unknown customer: zoe"}
    assert dict(dead[b"x"].headers)["reason"]

    # The next batch knows customers that were added later.
    topics.send(customers, [Sent("zoe", b'{"country": "DE", "tier": "basic"}')])
    topics.send(topic, [order(4, 0, customer="zoe")])
    run(enrich_and_route.main, bootstrap, *arguments)

    assert {each["order"]: each["country"] for each in topics.documents(f"{topic}.standard")} == {1: "AT", 4: "DE"}
    assert len(topics.received(f"{topic}.dead-letter")) == 2


def test_a_window_is_written_once_and_late_orders_count_until_then(
    bootstrap: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    revenue = f"{topic}.revenue"
    # One partition and batches of three make the content of each batch certain.
    topics.create(topic, partitions=1)
    first = [order(1, 10), order(2, 20, quantity=2), order(3, 70)]
    # The watermark is at 40 s then: one of these is late, but its window is open. It moves on to 70 s ...
    second = [order(4, 15, price=10), order(5, 100), order(6, 100)]
    # ... so that the window is written with the third batch, and what comes for it after that is too late.
    third = [order(7, 100), order(8, 100), order(9, 110)]
    fourth = [order(10, 30, price=1000), order(11, 200), order(12, 200)]
    topics.send(topic, first + second + third + fourth)

    arguments = ("--orders", topic, "--revenue", revenue, "--checkpoint", tmp_path / "checkpoint")
    run(windowed_revenue.main, bootstrap, *arguments, "--orders-per-batch", "3")

    windows = [
        (datetime.fromisoformat(each["start"]), each["orders"], Decimal(str(each["revenue"])))
        for each in sorted(topics.documents(revenue), key=lambda each: each["start"])
    ]
    assert windows == [(at(0), 3, Decimal("14.5")), (at(60), 6, Decimal(9))]


def test_the_first_of_duplicates_passes_unchanged(bootstrap: str, topics: Topics, topic: str, tmp_path: Path) -> None:
    first = Sent("ann", b'{"order": 1,  "note": "as it is"}', (("trace", b"7"), ("trace", None)), in_ms(at(0)))
    arguments = ("--source", topic, "--target", f"{topic}.unique", "--checkpoint", tmp_path / "checkpoint")
    topics.send(topic, [first, first, Sent("ben", b'{"order": 2}', (), in_ms(at(1)))])
    run(deduplicate.main, bootstrap, *arguments)
    # Another record with the same id in another batch, with another key and so possibly in another partition.
    topics.send(topic, [Sent("cleo", b'{"order": 1}', (), in_ms(at(30))), Sent("cleo", b'{"order": 3}')])
    run(deduplicate.main, bootstrap, *arguments)

    unique = {record.key: record for record in topics.received(f"{topic}.unique")}
    assert {key: record.value for key, record in unique.items()} == {
        b"ann": first.value,
        b"ben": b'{"order": 2}',
        b"cleo": b'{"order": 3}',
    }
    assert len(topics.received(f"{topic}.unique")) == 3
    assert unique[b"ann"].headers == first.headers
    assert unique[b"ann"].timestamp_ms == first.timestamp_ms


def test_orders_meet_their_payments_or_are_unpaid_after_an_hour(
    bootstrap: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    def payment(number: int, seconds: float) -> Sent:
        document = {"paid_order": number, "method": "card", "paid": at(seconds).isoformat()}
        return Sent(None, json.dumps(document).encode())

    paid, unpaid, payments = f"{topic}.paid", f"{topic}.unpaid", f"{topic}.payments"
    arguments = ("--orders", topic, "--payments", payments, "--paid-orders", paid, "--unpaid-orders", unpaid)
    arguments = (*arguments, "--checkpoint", str(tmp_path / "checkpoint"))
    # One payment arrives before its order, one too late, one without an order.
    topics.send(topic, [order(1, 0), order(2, 5)])
    topics.send(payments, [payment(1, 60), payment(3, 3_000), payment(9, 10)])
    run(join_payments.main, bootstrap, *arguments)
    topics.send(topic, [order(3, 2_990), order(4, 7_300)])
    topics.send(payments, [payment(2, 3_606), payment(4, 7_400)])
    run(join_payments.main, bootstrap, *arguments)

    assert sorted(each["order"] for each in topics.documents(paid)) == [1, 3, 4]
    assert [each["order"] for each in topics.documents(unpaid)] == [2]


def test_sessions_end_after_a_silence_in_any_order_of_arrival(
    spark: SparkSession, bootstrap: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    # Spark's worker processes cannot import an example module. A user's script is the main program and is sent.
    cloudpickle.register_pickle_by_value(sessionise)
    setting = next(iter(sessionise.SPARK_CONFIG))
    before = spark.conf.get(setting)
    assert before is not None
    arguments = ("--orders", topic, "--sessions", f"{topic}.sessions", "--checkpoint", tmp_path / "checkpoint")
    try:
        # The watermark moves on to 90 s: two sessions are over.
        topics.send(topic, [order(1, 29), order(2, 0), order(3, 5, customer="ben"), order(4, 100)])
        run(sessionise.main, bootstrap, *arguments)
        # One before and one after the open session: all three belong to one session.
        topics.send(topic, [order(5, 95), order(6, 110), order(7, 300, customer="ben")])
        run(sessionise.main, bootstrap, *arguments)
    finally:
        spark.conf.set(setting, before)
        cloudpickle.unregister_pickle_by_value(sessionise)

    found = [
        (
            each["customer"],
            datetime.fromisoformat(each["started"]),
            datetime.fromisoformat(each["ended"]),
            each["orders"],
        )
        for each in topics.documents(f"{topic}.sessions")
    ]
    assert sorted(found) == [("ann", at(0), at(29), 2), ("ann", at(95), at(110), 3), ("ben", at(5), at(5), 1)]


@given(st.permutations([0, 5, 14, 24, 50, 59, 60, 100]))
def test_sessions_do_not_depend_on_the_order_of_arrival(times: list[int]) -> None:
    sessions: list[Session] = []
    for time in times:
        sessions = merged([*sessions, Session(time, time, 1, Decimal(2))], gap_ms=10)

    assert [(each.started_ms, each.ended_ms, each.orders) for each in sessions] == [
        (0, 14, 3),
        (24, 24, 1),
        (50, 60, 3),
        (100, 100, 1),
    ]
    assert sum(each.revenue for each in sessions) == 2 * len(times)
