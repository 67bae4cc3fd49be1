"""Groups as an administrator sees and changes them: with Java's Admin client, and with Kafka's own command."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.interop import toolchain
from tests.interop.clients.confluent import Confluent
from tests.interop.clients.group_admin import GroupAdmin
from tests.interop.clients.program import Program
from tests.interop.consumer_groups import ConsumerGroups
from tests.interop.exchange import Record, Refused, Setting
from tests.support.broker.processes import BrokerProcess
from tests.support.groups.crew import SETTINGS

pytestmark = pytest.mark.interop

PARTITIONS = 3
RECORDS = 10
DEADLINE_S = 60

each_protocol = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("groups") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture
def admin(java_program: Program, broker: BrokerProcess) -> GroupAdmin:
    return GroupAdmin(java_program, broker.bootstrap_servers)


@pytest.fixture
def tool(broker: BrokerProcess) -> ConsumerGroups:
    return ConsumerGroups(toolchain.consumer_groups(), broker.bootstrap_servers)


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess, new_topic: Callable[[str], str]) -> str:
    topic, client = new_topic("read"), Confluent(broker.bootstrap_servers)
    client.create_topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        client.produce(topic, [Record(None, b"value")] * RECORDS, partition=partition)
    return topic


@pytest.fixture
def group(new_topic: Callable[[str], str]) -> str:
    return new_topic("group")


@contextmanager
def joined(
    broker: BrokerProcess, group: str, topic: str, protocol: str, instance_id: str | None = None
) -> Generator[Consumer]:
    """A member that has everything there is."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "client.id": f"client-of-{group}",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    if instance_id is not None:
        settings["group.instance.id"] = instance_id
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    poll_until(consumer, lambda: len(consumer.assignment()) == PARTITIONS)
    try:
        yield consumer
    finally:
        consumer.close()


def poll_until(consumer: Consumer, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "the member waits in vain"
        consumer.poll(0.05)


def names(topic: str) -> list[str]:
    return [f"{topic}-{partition}" for partition in range(PARTITIONS)]


# -- the Admin client of Java


def test_groups_are_listed_by_state_and_type(
    admin: GroupAdmin, broker: BrokerProcess, topic: str, new_topic: Callable[[str], str]
) -> None:
    simple, classic, consumer = new_topic("simple"), new_topic("classic"), new_topic("consumer")
    admin.alter_offsets(simple, topic, {0: (1, "")})
    with joined(broker, classic, topic, "classic"), joined(broker, consumer, topic, "consumer"):

        def listed(**filters: list[str]) -> set[str]:
            return set(admin.list(**filters)) & {simple, classic, consumer}

        assert admin.list()[simple] == ("Empty", "Classic", "")
        assert admin.list()[classic] == ("Stable", "Classic", "consumer")
        assert admin.list()[consumer] == ("Stable", "Consumer", "consumer")
        assert listed(states=["Stable"]) == {classic, consumer}
        assert listed(states=["Empty", "Dead"]) == {simple}
        assert listed(types=["Consumer"]) == {consumer}
        assert listed(types=["Classic"], states=["Stable"]) == {classic}
        assert listed(states=["Reconciling"]) == set()


@each_protocol
def test_a_group_with_a_member_is_described(
    admin: GroupAdmin, broker: BrokerProcess, topic: str, group: str, protocol: str
) -> None:
    with joined(broker, group, topic, protocol, instance_id="seat-1") as consumer:
        described = admin.describe(group)[group]

        is_classic = protocol == "classic"
        (member,) = described.pop("members")
        generation = int.from_bytes((consumer.consumer_group_metadata() or b"")[7:11], "little")
        epochs = [described.pop("epoch"), described.pop("targetEpoch"), member.pop("epoch")]
        assert epochs == [None if is_classic else generation] * 3
        assert described == {
            "type": protocol.capitalize(),
            "state": "Stable",
            "assignor": "range" if is_classic else "uniform",
            "coordinator": 1,
        }
        assert member.pop("id")
        assert member.pop("target", None) == (None if is_classic else names(topic))
        assert member == {
            "client": f"client-of-{group}",
            "instance": "seat-1",
            "host": "/127.0.0.1",
            "upgraded": None if is_classic else True,
            "partitions": names(topic),
        }
    if is_classic:
        # A static member keeps its seat when its client closes.
        (member,) = admin.describe_classic(group)[group]["members"]
        assert (member["instance"], member["partitions"]) == ("seat-1", names(topic))


def test_missing_groups_and_groups_of_other_types_are_told_apart(
    admin: GroupAdmin, broker: BrokerProcess, topic: str
) -> None:
    for ask in (admin.describe, admin.describe_classic, admin.delete):
        with pytest.raises(Refused) as refused:
            ask("nobody")
        assert refused.value.error == "GROUP_ID_NOT_FOUND"
    with joined(broker, "modern", topic, "consumer"), pytest.raises(Refused) as refused:
        admin.describe_classic("modern")
    assert refused.value.error == "GROUP_ID_NOT_FOUND"


def test_offsets_of_several_groups_are_altered_listed_and_deleted(
    admin: GroupAdmin, topic: str, new_topic: Callable[[str], str]
) -> None:
    one, other = new_topic("one"), new_topic("other")
    admin.alter_offsets(one, topic, {0: (3, "a note"), 2: (RECORDS, "")})
    admin.alter_offsets(other, topic, {1: (7, "ü")})

    assert admin.offsets(one, other) == {
        one: {f"{topic}-0": (3, "a note"), f"{topic}-2": (RECORDS, "")},
        other: {f"{topic}-1": (7, "ü")},
    }

    admin.delete_offsets(one, topic, 0)
    assert admin.offsets(one) == {one: {f"{topic}-2": (RECORDS, "")}}

    admin.delete(one, other)
    assert admin.offsets(one, other) == {one: {}, other: {}}
    assert not {one, other} & set(admin.list())


@each_protocol
def test_offsets_and_groups_in_use_by_members_cannot_be_changed(
    admin: GroupAdmin, broker: BrokerProcess, topic: str, group: str, protocol: str
) -> None:
    with joined(broker, group, topic, protocol) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)

        refusals: list[str] = []
        for ask in (
            lambda: admin.alter_offsets(group, topic, {0: (0, "")}),
            lambda: admin.delete_offsets(group, topic, 0),
            lambda: admin.delete(group),
        ):
            with pytest.raises(Refused) as refused:
                ask()
            refusals.append(refused.value.error)
        assert refusals == ["UNKNOWN_MEMBER_ID", "GROUP_SUBSCRIBED_TO_TOPIC", "NON_EMPTY_GROUP"]
        assert admin.offsets(group) == {group: {f"{topic}-0": (4, "")}}
    admin.delete(group)


@each_protocol
def test_members_are_removed_by_the_administrator(
    admin: GroupAdmin, broker: BrokerProcess, topic: str, group: str, protocol: str
) -> None:
    def members() -> set[tuple[str, int | None]]:
        return {(member["id"], member["epoch"]) for member in admin.describe(group)[group]["members"]}

    # A removed member may be back at once, but not with the same id or in the same epoch.
    with joined(broker, group, topic, protocol, instance_id="seat-1"):
        before = members()
        with pytest.raises(Refused):
            admin.remove_members(group, "seat-2")
        assert members() == before
        admin.remove_members(group, "seat-1")
        assert members().isdisjoint(before)
    with joined(broker, f"{group}-dynamic", topic, protocol):
        group = f"{group}-dynamic"
        before = members()
        admin.remove_members(group)
        assert members().isdisjoint(before)


def test_settings_of_a_group_are_changed_described_and_listed(admin: GroupAdmin, group: str) -> None:
    admin.configure(group, {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"})

    described = admin.describe_configs(group)
    assert described["consumer.session.timeout.ms"] == Setting("50000", "DYNAMIC_GROUP_CONFIG")
    assert group in admin.configured()

    admin.configure(group, {}, deleted=["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"])
    described = admin.describe_configs(group)
    default = SETTINGS["group.consumer.session.timeout.ms"]
    assert described["consumer.session.timeout.ms"] == Setting(default, "STATIC_BROKER_CONFIG")
    assert group not in admin.configured()

    for name, value in (("consumer.session.timeout.ms", "1"), ("no.such.setting", "1")):
        with pytest.raises(Refused) as refused:
            admin.configure(group, {name: value})
        assert refused.value.error == "INVALID_CONFIG"


# -- kafka-consumer-groups


def test_the_command_of_kafka_lists_and_describes_groups(
    tool: ConsumerGroups, broker: BrokerProcess, topic: str, new_topic: Callable[[str], str]
) -> None:
    classic, modern = new_topic("classic"), new_topic("consumer")
    with joined(broker, classic, topic, "classic") as one, joined(broker, modern, topic, "consumer") as other:
        one.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        other.commit(offsets=[TopicPartition(topic, 1, RECORDS)], asynchronous=False)

        listed = tool("--list", "--state", "--type").rows
        assert {"GROUP": classic, "TYPE": "Classic", "STATE": "Stable"} in listed
        assert {"GROUP": modern, "TYPE": "Consumer", "STATE": "Stable"} in listed

        described = tool("--describe", "--group", classic, "--group", modern).rows
    columns = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "HOST", "CLIENT-ID")
    # What nobody has committed has no lag either.
    known = {(classic, 0): ("4", "6"), (modern, 1): (str(RECORDS), "0")}
    for group in (classic, modern):
        for partition in range(PARTITIONS):
            offset, lag = known.get((group, partition), ("-", "-"))
            host, client = "/127.0.0.1", f"client-of-{group}"
            row = (group, topic, str(partition), offset, str(RECORDS), lag, host, client)
            assert row in [tuple(row[column] for column in columns) for row in described]


def test_the_command_of_kafka_resets_offsets(tool: ConsumerGroups, admin: GroupAdmin, topic: str, group: str) -> None:
    admin.alter_offsets(group, topic, dict.fromkeys(range(PARTITIONS), (RECORDS, "")))
    reset = ("--reset-offsets", "--group", group, "--topic", topic)

    planned = tool(*reset, "--to-earliest", "--dry-run").rows
    assert {(row["PARTITION"], row["NEW-OFFSET"]) for row in planned} == {
        (str(partition), "0") for partition in range(PARTITIONS)
    }
    assert set(admin.offsets(group)[group].values()) == {(RECORDS, "")}

    tool(*reset, "--shift-by", "-3", "--execute")
    assert set(admin.offsets(group)[group].values()) == {(RECORDS - 3, "")}
