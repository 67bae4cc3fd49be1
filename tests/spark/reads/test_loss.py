"""Missing records are reported with partition and offsets, or skipped with failOnDataLoss=false."""

import re
from typing import Any

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.spark.options.broker_address import BrokerAddress
from headwater.spark.reads.loss import DataLoss
from headwater.spark.reads.stream_reader import HeadwaterStreamReader
from headwater.testing import Broker
from tests.support.spark.reads import Query, batch, numbered, one, produce, rows, stream, values

TOLERANT = {"failOnDataLoss": "false"}


@pytest.fixture
def single(cluster: Cluster, topic: str) -> str:
    """A topic of one partition with ten records."""
    Admin(cluster).create_topic(topic, partition_count=1)
    produce(cluster, topic, numbered(10))
    return topic


def expect_loss(partition: str, reason: str) -> Any:
    hint = re.escape("To go on with what is there, set the option 'failOnDataLoss' to 'false'")
    return pytest.raises(DataLoss, match=f"data loss in {partition}: {reason}.*{hint}")


def recreate(cluster: Cluster, topic: str) -> None:
    admin = Admin(cluster)
    admin.delete_topic(topic)
    admin.create_topic(topic, partition_count=1)


def begun(broker: Broker, topic: str, **given: str) -> HeadwaterStreamReader:
    return stream(broker, {"subscribe": topic, "startingOffsets": "earliest", **given})


# -- between the plan and the task


def test_records_deleted_after_planning_are_a_data_loss(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    strict = batch(headwater_broker, {"subscribe": single})
    tolerant = batch(headwater_broker, {"subscribe": single, **TOLERANT})
    planned = strict.partitions()
    Admin(cluster).delete_records({one(single): 4})

    with expect_loss(f"{single}-0", "expected offset 0, the earliest is 4: retention or a deletion came first"):
        rows(strict, planned)
    assert values(rows(tolerant, planned)) == numbered(6, 4)


def test_a_topic_deleted_after_planning_is_a_data_loss(
    headwater_broker: Broker, cluster: Cluster, single: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokerAddress(headwater_broker.bootstrap_servers).cluster(), "_topic_wait_ms", 0)
    strict = batch(headwater_broker, {"subscribe": single})
    tolerant = batch(headwater_broker, {"subscribe": single, **TOLERANT})
    planned = strict.partitions()
    Admin(cluster).delete_topic(single)

    with expect_loss(f"{single}-0", "expected offset 0, but the partition does not exist any more"):
        rows(strict, planned)
    assert rows(tolerant, planned) == []


def test_a_topic_recreated_after_planning_is_a_data_loss(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    given = {"subscribe": single, "startingOffsets": f'{{"{single}": {{"0": 6}}}}'}
    strict, tolerant = batch(headwater_broker, given), batch(headwater_broker, {**given, **TOLERANT})
    planned = strict.partitions()
    recreate(cluster, single)
    produce(cluster, single, numbered(3))

    with expect_loss(f"{single}-0", "expected offset 6, but it ends at 3: the topic was made anew"):
        rows(strict, planned)
    assert rows(tolerant, planned) == []


def test_a_task_does_not_wait_for_ever_for_a_log_that_ends_before_its_plan(
    headwater_broker: Broker, cluster: Cluster, single: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = batch(headwater_broker, {"subscribe": single})
    tolerant = batch(headwater_broker, {"subscribe": single, **TOLERANT})
    planned = strict.partitions()
    recreate(cluster, single)
    produce(cluster, single, numbered(3))
    # Shorter than the broker's long poll.
    monkeypatch.setattr(BrokerAddress(headwater_broker.bootstrap_servers).cluster(), "timeout_ms", 400)

    with expect_loss(f"{single}-0", "expected offset 10, but it ends at 3"):
        rows(strict, planned)
    assert values(rows(tolerant, planned)) == numbered(3)


def test_a_batch_read_of_deleted_offsets_is_a_data_loss_before_it_begins(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    Admin(cluster).delete_records({one(single): 4})
    given = {"subscribe": single, "startingOffsets": f'{{"{single}": {{"0": 1}}}}'}

    with expect_loss(f"{single}-0", "expected offset 1, the earliest is 4"):
        batch(headwater_broker, given).partitions()
    tolerant = batch(headwater_broker, {**given, **TOLERANT})
    assert values(rows(tolerant, tolerant.partitions())) == numbered(6, 4)


# -- between two batches of a query


def test_a_query_overtaken_by_retention_reports_partition_and_offsets(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    reached = {single: {"0": 2}}
    Admin(cluster).delete_records({one(single): 5})

    with expect_loss(f"{single}-0", "expected offset 2, the earliest is 5"):
        Query(begun(headwater_broker, single), reached).next()
    assert Query(begun(headwater_broker, single, failOnDataLoss="false"), reached).next() == numbered(5, 5)


@pytest.mark.parametrize("choice", ["subscribe", "subscribePattern", "assign"])
def test_a_deleted_topic_ends_a_query_unless_data_loss_is_tolerated(
    headwater_broker: Broker, cluster: Cluster, single: str, choice: str
) -> None:
    text = f'{{"{single}": [0]}}' if choice == "assign" else single
    given = {choice: text, "startingOffsets": "earliest"}
    strict = Query(stream(headwater_broker, given))
    tolerant = Query(stream(headwater_broker, {**given, **TOLERANT}))
    assert strict.next() == tolerant.next() == numbered(10)
    Admin(cluster).delete_topic(single)

    with expect_loss(f"{single}-0", "expected offset 10, but the partition does not exist any more"):
        strict.next()
    assert tolerant.next() == []
    assert tolerant.reached == {}

    Admin(cluster).create_topic(single, partition_count=1)
    cluster.forget([single])
    produce(cluster, single, numbered(2))
    assert tolerant.next() == numbered(2), "there it is again, and is read from its first record"


def test_a_recreated_topic_ends_a_query_unless_data_loss_is_tolerated(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    strict = Query(begun(headwater_broker, single))
    tolerant = Query(begun(headwater_broker, single, failOnDataLoss="false"))
    assert strict.next() == tolerant.next() == numbered(10)
    recreate(cluster, single)
    produce(cluster, single, numbered(3))

    with expect_loss(f"{single}-0", "expected offset 10, but it ends at 3: the topic was made anew"):
        strict.next()
    assert tolerant.next() == []
    produce(cluster, single, [b"new"])
    assert tolerant.next() == [b"new"]


def test_a_checkpointed_batch_that_ends_before_its_start_is_a_data_loss(headwater_broker: Broker, single: str) -> None:
    reader = begun(headwater_broker, single)
    with expect_loss(f"{single}-0", "expected offset 5, but it ends at 3"):
        reader.partitions({single: {"0": 5}}, {single: {"0": 3}})
    assert begun(headwater_broker, single, **TOLERANT).partitions({single: {"0": 5}}, {single: {"0": 3}}) == []


def test_a_new_partition_that_has_already_lost_records_is_a_data_loss(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    strict, tolerant = begun(headwater_broker, single), begun(headwater_broker, single, **TOLERANT)
    Admin(cluster).add_partitions(single, 2)
    cluster.forget([single])
    produce(cluster, single, numbered(3), partition=1)
    Admin(cluster).delete_records({one(single, 1): 2})
    reached = {single: {"0": 10}}

    with expect_loss(f"{single}-1", "expected offset 0, the earliest is 2"):
        Query(strict, reached).next()
    assert Query(tolerant, reached).next() == numbered(1, 2)
