"""Every client creates, describes, alters and deletes topics, and sees what another one did."""

from pathlib import Path

import pytest

from tests.interop.clients.confluent import Confluent
from tests.interop.clients.kcat import Kcat
from tests.interop.clients.program import ProgramClient
from tests.interop.exchange import AdminClient, Connect, Record, Refused, Replicas, Setting

pytestmark = pytest.mark.interop

ADMINS = ("confluent", "java", "franz")
each_admin = pytest.mark.parametrize("admin", ADMINS, indirect=True)

CONFIGS = {"cleanup.policy": "compact,delete", "retention.ms": "86400000", "max.message.bytes": "2000000"}


def refusal(error: pytest.ExceptionInfo[Refused]) -> str:
    return error.value.error


@each_admin
def test_a_created_topic_is_described_alike_by_every_client(admin: AdminClient, connect: Connect, topic: str) -> None:
    admin.create_topic(topic, partitions=3, configs=CONFIGS)

    described = admin.describe_topic(topic)
    assert described.partitions == (Replicas(leader=1, replicas=(1,), isr=(1,)),) * 3
    configs = admin.describe_configs(topic)
    assert {name: configs[name] for name in CONFIGS} == {
        name: Setting(value, "DYNAMIC_TOPIC_CONFIG") for name, value in CONFIGS.items()
    }
    assert configs["segment.bytes"] == Setting("1073741824", "DEFAULT_CONFIG")
    reference = connect("confluent")
    assert isinstance(reference, Confluent)
    assert reference.describe_topic(topic) == described
    assert reference.describe_configs(topic) == configs


@each_admin
def test_topics_are_listed_until_they_are_deleted(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic)
    assert topic in admin.topics()

    admin.delete_topic(topic)

    assert topic not in admin.topics()
    with pytest.raises(Refused) as described:
        admin.describe_topic(topic)
    assert refusal(described) == "UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(Refused) as deleted:
        admin.delete_topic(topic)
    assert refusal(deleted) == "UNKNOWN_TOPIC_OR_PARTITION"


@each_admin
def test_a_topic_that_is_created_again_is_empty_and_has_another_id(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic)
    before = admin.describe_topic(topic)
    admin.produce(topic, [Record(b"k", b"old")])
    admin.delete_topic(topic)

    admin.create_topic(topic)

    assert admin.describe_topic(topic).id != before.id
    assert admin.offset(topic, "latest").offset == 0
    admin.produce(topic, [Record(b"k", b"new")])
    assert admin.consume(topic, 1)[0].value == b"new"


@each_admin
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"topic": "not/a/name"}, "INVALID_TOPIC_EXCEPTION"),
        ({"partitions": 0}, "INVALID_PARTITIONS"),
        ({"replication": 2}, "INVALID_REPLICATION_FACTOR"),
        ({"configs": {"retention.ms": "soon"}}, "INVALID_CONFIG"),
        ({"configs": {"retention.msec": "1"}}, "INVALID_CONFIG"),
    ],
)
def test_a_wrong_creation_is_refused_with_the_error_of_kafka(
    admin: AdminClient, topic: str, wrong: dict[str, object], error: str
) -> None:
    with pytest.raises(Refused) as refused:
        admin.create_topic(**{"topic": topic, **wrong})  # pyright: ignore[reportArgumentType]

    assert refusal(refused) == error
    assert topic not in admin.topics()


@each_admin
def test_a_topic_is_not_created_twice(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic)

    with pytest.raises(Refused) as refused:
        admin.create_topic(topic)

    assert refusal(refused) == "TOPIC_ALREADY_EXISTS"


@each_admin
def test_a_creation_that_is_only_validated_creates_nothing(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic, validate_only=True)

    assert topic not in admin.topics()


@each_admin
def test_settings_are_altered_one_by_one_and_fall_back_to_their_defaults(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic, configs=CONFIGS)

    admin.alter_configs(topic, {"retention.ms": "1000", "compression.type": "zstd"}, ["max.message.bytes"])

    configs = admin.describe_configs(topic)
    assert configs["retention.ms"] == Setting("1000", "DYNAMIC_TOPIC_CONFIG")
    assert configs["compression.type"] == Setting("zstd", "DYNAMIC_TOPIC_CONFIG")
    assert configs["cleanup.policy"] == Setting(CONFIGS["cleanup.policy"], "DYNAMIC_TOPIC_CONFIG"), "not named, so kept"
    assert configs["max.message.bytes"] == Setting("1048588", "DEFAULT_CONFIG")


@each_admin
@pytest.mark.parametrize("change", [{"retention.ms": "-2"}, {"cleanup.policy": "shred"}, {"no.such.setting": "1"}])
def test_a_wrong_setting_changes_nothing(admin: AdminClient, topic: str, change: dict[str, str]) -> None:
    admin.create_topic(topic)
    before = admin.describe_configs(topic)

    with pytest.raises(Refused) as refused:
        admin.alter_configs(topic, change)

    assert refusal(refused) == "INVALID_CONFIG"
    assert admin.describe_configs(topic) == before


@each_admin
def test_partitions_are_added_and_never_taken_away(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic, partitions=2)

    admin.add_partitions(topic, 5)

    assert len(admin.describe_topic(topic).partitions) == 5
    admin.produce(topic, [Record(b"k", b"v")], partition=4)
    assert admin.consume(topic, 1, partition=4)[0].value == b"v"
    with pytest.raises(Refused) as refused:
        admin.add_partitions(topic, 2)
    assert refusal(refused) == "INVALID_PARTITIONS"


@each_admin
def test_deleted_records_move_the_start_of_the_log(admin: AdminClient, topic: str) -> None:
    admin.create_topic(topic)
    admin.produce(topic, [Record(None, b"%d" % number) for number in range(10)])

    assert admin.delete_records(topic, before=4) == 4

    assert admin.offset(topic, "earliest").offset == 4
    with pytest.raises(Refused) as refused:
        admin.delete_records(topic, before=11)
    assert refusal(refused) == "OFFSET_OUT_OF_RANGE"


@pytest.mark.parametrize("admin", ["java", "franz"], indirect=True)
def test_log_directories_are_described_with_the_sizes_on_disk(
    admin: AdminClient, topic: str, data_directory: Path
) -> None:
    assert isinstance(admin, ProgramClient)
    admin.create_topic(topic, partitions=2)
    admin.produce(topic, [Record(None, b"v" * 1000)], partition=1)

    sizes = [sum(log.stat().st_size for log in (data_directory / f"{topic}-{n}").glob("*.log")) for n in range(2)]

    assert admin.log_sizes(topic) == sizes


def test_kcat_lists_a_topic_that_its_own_record_created(kcat: Kcat, topic: str) -> None:
    kcat.produce(topic, [Record(b"key", b"value")])

    assert kcat.topics()[topic] == (Replicas(leader=1, replicas=(1,), isr=(1,)),) * 3
