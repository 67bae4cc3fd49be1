"""Offsets committed inside transactions: their requests in every version, and the codes that each version knows."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from headwater.errors import ErrorCode, Refusal
from headwater.testing import Broker
from tests.support.broker.faulty_disk import FULL, FaultyDisk
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import FETCH_VERSIONS, Place, commit, committed, find, only_member
from tests.support.kafka.raw_transactions import (
    END_1,
    END_2,
    SETTINGS,
    Producer,
    add_offsets,
    commit_offset,
    ended,
    fenced,
    init,
)

TRANSACTION = 1
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**SETTINGS, "transaction.max.timeout.ms": "100000"}) as broker:
        yield broker


@pytest.mark.parametrize("version", range(5))
def test_only_the_owner_of_an_id_adds_group_offsets(client: RawClient, producer: Producer, version: int) -> None:
    group = f"group-{uuid4().hex}"
    assert add_offsets(client, producer, group, version=version) == 0
    assert add_offsets(client, producer, group, version=version) == 0
    assert add_offsets(client, producer._replace(epoch=9), group, version=version) == fenced(version, known_from=2)
    stranger = producer._replace(id=producer.id + 999)
    assert add_offsets(client, stranger, group, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_offsets_take_effect_when_their_transaction_commits(
    client: RawClient, topic: str, producer: Producer, version: int, is_commit: bool
) -> None:
    group = f"group-{uuid4().hex}"
    find(client, group)
    if version < 5:
        early = commit_offset(client, producer, group, topic, 7, version=version)
        assert early == (ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE)
        assert add_offsets(client, producer, group) == 0
    assert commit_offset(client, producer, group, topic, 7, version=version) == 0
    assert committed(client, group, topic).committed_offset == -1
    ended(client, producer, commit=is_commit, version=END_2 if version >= 5 else END_1)
    assert committed(client, group, topic).committed_offset == (7 if is_commit else -1)


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_unknown_partitions_or_a_fenced_producer_are_refused(
    client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    group = f"group-{uuid4().hex}"
    assert add_offsets(client, producer, group) == 0
    for where, index in (("nowhere", 0), (topic, 1), (topic, -1)):
        assert commit_offset(client, producer, group, where, 7, partition=index, version=version) == UNKNOWN
    old = producer._replace(epoch=9)
    assert commit_offset(client, old, group, topic, 7, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH
    stranger = producer._replace(id=producer.id + 999)
    assert commit_offset(client, stranger, group, topic, 7, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert commit_offset(client, producer, group, topic, 7, version=version) == 0


def test_adding_offsets_is_refused_when_the_offsets_topic_cannot_be_created() -> None:
    disk = FaultyDisk()
    disk.cursed, disk.create_error = "__consumer_offsets", FULL
    with Broker(SETTINGS, disk=disk) as broker, RawClient(broker) as client:
        client.create("topic")
        producer = init(client, "tx")
        assert add_offsets(client, producer, "group") == ErrorCode.KAFKA_STORAGE_ERROR
        assert commit_offset(client, producer, "group", "topic", 7) == ErrorCode.KAFKA_STORAGE_ERROR
        disk.heal()
        assert commit_offset(client, producer, "group", "topic", 7) == 0


@pytest.mark.parametrize("is_of_group", [True, False])
def test_an_offset_commit_is_told_to_retry_while_its_coordinator_loads(is_of_group: bool) -> None:
    with Broker(SETTINGS) as broker, RawClient(broker) as client:
        client.create("topic")
        producer = init(client, "tx")
        assert add_offsets(client, producer, "group") == 0

        def unload() -> None:
            core = broker.node.broker
            sharding = core.groups if is_of_group else core.transactions
            for shard in sharding.shards:
                shard.drop("for a test")
                shard._refusal = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being loaded")

        on_loop(broker, unload)
        for version in range(6):
            # Clients before version 2 do not know COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
            is_known = is_of_group and version >= 2
            expected = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_known else ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert commit_offset(client, producer, "group", "topic", 7, version=version) == expected


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_fetch_of_stable_offsets_is_refused_until_the_transaction_ends(
    client: RawClient, name: str, producer: Producer, version: int, is_commit: bool
) -> None:
    group, topic, topic_id = f"group-{uuid4().hex}", name, client.create(name)
    find(client, group)
    assert commit(client, group, Place(), topic, 3) == 0
    assert commit_offset(client, producer, group, topic, 7) == 0

    def told(*, stable: bool) -> tuple[int, int]:
        found = committed(client, group, topic, version=version, topic_id=topic_id, require_stable=stable)
        return found.committed_offset, found.error_code

    # Older versions have no `require_stable`.
    unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT) if version >= 7 else (3, 0)
    assert (told(stable=False), told(stable=True)) == ((3, 0), unstable)
    ended(client, producer, commit=is_commit)
    assert told(stable=True) == ((7 if is_commit else 3), 0)


@pytest.mark.parametrize("version", range(3, 6))
def test_a_member_commits_offsets_under_its_generation(
    client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    group = f"group-{uuid4().hex}"
    place = only_member(client, group)
    assert add_offsets(client, producer, group) == 0
    stale = place._replace(generation=place.generation + 1)
    codes = [
        commit_offset(client, producer, group, topic, 7, place=each, version=version)
        for each in (stale, Place("stranger", place.generation), place)
    ]
    assert codes == [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, 0]
