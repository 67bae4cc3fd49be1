"""`headwater group` with share groups."""

from collections.abc import Iterator

import pytest
from confluent_kafka import ShareConsumer  # pyright: ignore[reportPrivateImportUsage]

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.producer import Producer
from headwater.testing import Broker
from tests.support.cli.commands import Commands
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_shares import new_group


@pytest.fixture
def group(broker: Broker) -> str:
    with RawClient(broker) as client:
        return new_group(client)


@pytest.fixture
def member(broker: Broker, cluster: Cluster, name: str, group: str) -> Iterator[ShareConsumer]:
    """A member that has accepted the ten records of a topic, after which three more came."""
    Admin(cluster).create_topic(name, partition_count=1)
    with Producer(cluster) as producer:
        for number in range(10):
            producer.send(name, b"v%d" % number)
    consumer = ShareConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "client.id": "worker"})
    consumer.subscribe([name])
    found = 0
    while found < 10:
        found += len(list(consumer.poll(0.2)))
    consumer.commit_sync()
    with Producer(cluster) as producer:
        for number in range(3):
            producer.send(name, b"w%d" % number)
    yield consumer
    consumer.close()


def test_a_share_group_is_listed_and_described(
    commands: Commands, name: str, group: str, member: ShareConsumer
) -> None:
    listed = commands.succeed("group", "list", "--type", "share", "--format", "json").rows
    assert {"group": group, "type": "share", "state": "Stable", "protocol": "share"} in listed

    (described,) = commands.succeed("group", "describe", group, "--format", "json").rows
    (row,) = described["partitions"]
    assert 0 <= row.pop("oldest_age_ms") < 600_000
    # The three new ones may be on their way to the member.
    counted = {"held": row["held"], "waiting": 0, "deliveries": 10 + row["held"], "archived": 0}
    assert row == {"topic": name, "partition": 0, "start": 10, "end": 13, "backlog": 3, "members": 1, **counted}
    assert (described["type"], described["assignor"], described["members"], described["backlog"]) == (
        "share",
        "simple",
        1,
        3,
    )
    table = commands.succeed("group", "describe", group).lines[0]
    assert f"group {group}  type share  state Stable" in table
    assert "members 1  backlog 3" in table

    (one,) = commands.succeed("group", "members", group, "--format", "json").rows
    assert (one["client_id"], one["protocol"], one["assigned"]) == ("worker", "share", {name: [0]})

    offsets = commands.succeed("group", "offsets", group, "--format", "json").rows
    assert [(each["topic"], each["start"], each["backlog"]) for each in offsets] == [(name, 10, 3)]


def test_a_share_group_is_deleted_when_its_members_are_gone(
    commands: Commands, group: str, member: ShareConsumer
) -> None:
    refused = commands("group", "delete", group, "--yes")
    assert refused.code != 0
    assert "worker" in refused.error
    member.close()
    commands.succeed("group", "delete", group, "--yes")
    assert group not in {each["group"] for each in commands.succeed("group", "list", "--format", "json").rows}
