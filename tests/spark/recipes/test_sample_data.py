"""The recipes on the orders of examples/orders.py: the output of each shows what the recipe is about."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from examples import orders as sample
from examples.pipelines import deduplicate, enrich_and_route, join_payments, windowed_revenue

from headwater.client.cluster import Cluster
from headwater.testing import Broker
from tests.spark.recipes.recipes import Topics, run

pytestmark = pytest.mark.usefixtures("spark")

ORDERS = 800
TWICE, DAMAGED, UNKNOWN = (ORDERS // each for each in (sample.TWICE, sample.DAMAGED, sample.UNKNOWN))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        command = ["--bootstrap", broker.bootstrap_servers, "--count", str(ORDERS)]
        result = CliRunner().invoke(sample.main, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        yield broker


@pytest.fixture
def topics(broker: Broker) -> Iterator[Topics]:
    with Cluster(broker.bootstrap_servers) as cluster:
        yield Topics(cluster)


def numbers(documents: list[dict[str, Any]]) -> list[int]:
    return sorted(document["order"] for document in documents)


def test_damaged_orders_and_those_of_unknown_customers_are_dead_letters(
    broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    run(enrich_and_route.main, broker.bootstrap_servers, "--checkpoint", tmp_path)

    reasons = [dict(record.headers)["reason"] or b"" for record in topics.received("orders.dead-letter")]
    unknown = [reason for reason in reasons if reason == b"unknown customer: nobody"]
    # An order of an unknown customer that was sent twice comes twice.
    assert len(unknown) == 2 * UNKNOWN
    assert len(reasons) - len(unknown) == DAMAGED
    good = len(topics.received("orders.large")) + len(topics.received("orders.standard"))
    assert good == ORDERS + TWICE + 1 - len(reasons)


def test_orders_that_were_sent_twice_are_there_once(broker: Broker, topics: Topics, tmp_path: Path) -> None:
    run(deduplicate.main, broker.bootstrap_servers, "--checkpoint", tmp_path)

    assert len(topics.received("orders")) == ORDERS + TWICE + 1
    unique = topics.received("orders.unique")
    assert len(unique) == ORDERS + 1
    # Damaged ones have no id, and none of them is a duplicate.
    assert sum(not (record.value or b"").endswith(b"}") for record in unique) == DAMAGED


def test_unpaid_orders_are_told_when_their_hour_is_over(broker: Broker, topics: Topics, tmp_path: Path) -> None:
    run(join_payments.main, broker.bootstrap_servers, "--checkpoint", tmp_path)

    paid = {json.loads(record.value)["paid_order"] for record in sample.make_payments(ORDERS)}
    unpaid = set(numbers(topics.documents("orders.unpaid")))
    assert unpaid
    assert unpaid.isdisjoint(paid)
    assert len(unpaid | set(numbers(topics.documents("orders.paid")))) == ORDERS + 1 - DAMAGED


def test_damaged_orders_do_not_end_a_window_and_are_kept(broker: Broker, topics: Topics, tmp_path: Path) -> None:
    run(windowed_revenue.main, broker.bootstrap_servers, "--checkpoint", tmp_path)

    assert sum(each["orders"] for each in topics.documents("revenue")) == ORDERS + TWICE - DAMAGED
    assert {record.value for record in topics.received("orders.bad")} == {
        record.value for record in sample.make_real_orders(ORDERS) if not record.value.endswith(b"}")
    }
