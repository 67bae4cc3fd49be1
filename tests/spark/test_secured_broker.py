"""Spark at a broker that wants TLS and a password and that enforces rules: what a job needs is a reader's and a
writer's role."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from headwater.client import AccessAdmin, Admin, Cluster, Consumer, GroupAdmin, Producer, read_security
from headwater.client.offsets import EARLIEST, list_offsets
from headwater.ids import GroupId, TopicName, TopicPartition
from headwater.security.acl import PatternType, ResourceType
from headwater.security.roles import RoleGrant
from headwater.testing import Broker, BrokerSecurity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 120
GRANTS = [
    ("reader", ResourceType.TOPIC, "letters", PatternType.LITERAL),
    ("reader", ResourceType.GROUP, "headwater-spark-", PatternType.PREFIXED),
    ("writer", ResourceType.TOPIC, "copy", PatternType.LITERAL),
    ("writer", ResourceType.TRANSACTIONAL_ID, "headwater-spark-", PatternType.PREFIXED),
]


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    users = {"admin": "secret of admin", "job": "planted secret"}
    with Broker(security=BrokerSecurity("SASL_SSL", users=users, authorizer=True)) as broker:
        with admin_of(broker) as cluster:
            for topic in ("letters", "copy"):
                Admin(cluster).create_topic(topic, partition_count=1)
            for role, resource_type, name, pattern in GRANTS:
                AccessAdmin(cluster).grant(RoleGrant(role, "User:job", resource_type, name, pattern))
            with Producer(cluster) as producer:
                for value in (b"a", b"b"):
                    producer.send("letters", value)
        yield broker


def admin_of(broker: Broker) -> Cluster:
    return Cluster(broker.bootstrap_servers, security=read_security(broker.client_settings("admin")))


def options(broker: Broker, **others: str) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in broker.client_settings("job").items()} | others


def copied(broker: Broker) -> list[bytes | None]:
    """What is committed in the topic `copy`, which is emptied for the next test."""
    partition = TopicPartition(TopicName("copy"), 0)
    with admin_of(broker) as cluster:
        consumer = Consumer(cluster, list_offsets(cluster, [partition], EARLIEST), committed_only=True)
        values = [record.value for record in consumer.poll()]
        Admin(cluster).delete_records({partition: -1})
    return values


def test_a_batch_reads_and_writes(spark: "SparkSession", secured: Broker) -> None:
    rows = spark.read.format("headwater").options(**options(secured, subscribe="letters")).load()
    rows.select("value").write.format("headwater").options(**options(secured, topic="copy")).mode("append").save()

    assert copied(secured) == [b"a", b"b"]


def test_a_stream_reads_and_writes_and_shows_its_progress(
    spark: "SparkSession", secured: Broker, tmp_path: Path
) -> None:
    reader = spark.readStream.format("headwater").options(**options(secured, subscribe="letters"))
    rows = reader.option("startingOffsets", "earliest").load().select("value")
    # Without `applicationId` it is the query's id, which no rule can foresee.
    to = options(secured, topic="copy", applicationId="headwater-spark-secured")
    writer = rows.writeStream.format("headwater").queryName("secured").options(**to)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()

    assert query.awaitTermination(TIMEOUT_S)
    assert copied(secured) == [b"a", b"b"]
    with admin_of(secured) as cluster:
        progress = GroupAdmin(cluster).committed(GroupId("headwater-spark-secured"))
    assert [committed.offset for committed in progress.values()] == [2], "a reader may not delete the group beside it"


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"kafka.sasl.password": "planted and wrong"}, "SASL_AUTHENTICATION_FAILED"),
        ({"kafka.ssl.ca.location": "/none.pem"}, "/none.pem: No such file"),
        ({"subscribe": "hidden"}, "hidden"),
    ],
)
def test_what_is_refused_is_a_clear_error_without_the_password(
    spark: "SparkSession", secured: Broker, setting: dict[str, str], complaint: str
) -> None:
    given = options(secured, subscribe="letters") | setting
    with pytest.raises(PySparkException) as raised:
        spark.read.format("headwater").options(**given).load().collect()
    assert complaint in str(raised.value)
    assert "planted" not in str(raised.value)
