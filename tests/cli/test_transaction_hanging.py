import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.offsets import LATEST, list_offsets
from headwater.client.transactions.admin import TransactionAdmin
from headwater.clock import SystemClock
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches import batch
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.records.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headwater.protocol.messages.transactions.list_transactions import ListTransactionsRequest
from headwater.protocol.wire.codec import Request
from headwater.testing import Broker
from tests.support.cli.commands import Commands, Outcome, Terminal
from tests.support.client.scripted import leading
from tests.support.client.scripted_transactions import ORDERS_0, ORDERS_1, ScriptedTransactions, producing

HOUR_MS = 3_600_000
TIMEOUT_S = 20
ZOMBIE, ZOMBIE_EPOCH = 4_000_000, 3
# From this version on, a broker adds the partition to the transaction by itself.
PRODUCE_VERSION_MAX = 11


# -- at a real broker


class LateClock(SystemClock):
    """A clock that is an hour behind: records written now look an hour old to others."""

    def now_ms(self) -> int:
        return super().now_ms() - HOUR_MS


@pytest.fixture(scope="module")
def trusting() -> Iterator[Broker]:
    """A broker that accepts records of transactions unknown to its coordinator, as brokers before Kafka 3.6 did."""
    with Broker({"transaction.partition.verification.enable": "false"}, clock=LateClock()) as running:
        yield running


@pytest.fixture
def trusting_cluster(trusting: Broker) -> Iterator[Cluster]:
    with Cluster(trusting.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def hung(trusting_cluster: Cluster, name: str) -> TopicPartition:
    """A partition with a record of a hanging transaction, followed by a record outside of any transaction."""
    Admin(trusting_cluster).create_topic(name, partition_count=1)
    partition = TopicPartition(TopicName(name), 0)
    for lost in (True, False):
        record = Record(0, LateClock().now_ms(), None, b"lost" if lost else b"kept")
        if lost:
            written = batch.build(
                [record], producer_id=ZOMBIE, producer_epoch=ZOMBIE_EPOCH, base_sequence=0, transactional=True
            )
        else:
            written = batch.build([record])
        data = PartitionProduceData(index=0, records=written)
        request = ProduceRequest(
            transactional_id="zombie" if lost else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=name, partition_data=[data])],
        )
        connection = trusting_cluster.node(trusting_cluster.leader(partition))
        response = connection.call(request, ProduceResponse, version_max=PRODUCE_VERSION_MAX)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return partition


def test_a_transaction_that_hangs_is_found_and_aborted(
    trusting: Broker, trusting_cluster: Cluster, hung: TopicPartition
) -> None:
    def stable() -> int:
        return list_offsets(trusting_cluster, [hung], LATEST, committed_only=True)[hung]

    commands = Commands(trusting.bootstrap_servers)
    (row,) = commands.succeed("transaction", "find-hanging", "--topic", hung.topic, "--format", "json").rows
    assert (row["topic"], row["partition"], row["start_offset"]) == (hung.topic, 0, 0)
    assert (row["producer_id"], row["producer_epoch"]) == (ZOMBIE, ZOMBIE_EPOCH)
    assert row["duration_ms"] >= HOUR_MS
    recent = commands.succeed("transaction", "find-hanging", "--topic", hung.topic, "--max-timeout", "2h")
    assert recent.lines == ["no transaction hangs in 1 partition"]
    assert stable() == 0

    abort = ("transaction", "abort-hanging", "--topic", hung.topic, "--partition", "0")
    wrong = commands(*abort, "--start-offset", "1")
    assert (wrong.code, wrong.error) == (
        1,
        f"error: no transaction in {hung} begins at offset 1; those that are open begin at 0\n",
    )
    commands.succeed(*abort, "--start-offset", "0", "--dry-run")
    assert stable() == 0, "a dry run changes nothing"
    done = commands.succeed(*abort, "--start-offset", "0")
    assert done.error == f"aborted the transaction of producer {ZOMBIE} in partition {hung}\n"
    assert stable() == 3, "both records and the marker"
    none = commands.succeed("transaction", "find-hanging", "--topic", hung.topic)
    assert none.lines == ["no transaction hangs in 1 partition"]
    again = commands(*abort, "--start-offset", "0")
    assert again.error == f"error: no transaction in {hung} begins at offset 0; none is open there\n"


def test_a_transaction_that_its_coordinator_knows_neither_hangs_nor_is_aborted(
    trusting: Broker, trusting_cluster: Cluster, name: str
) -> None:
    commands = Commands(trusting.bootstrap_servers)
    Admin(trusting_cluster).create_topic(name, partition_count=1)
    producer = Producer({"bootstrap.servers": trusting.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(name, b"v")
    assert producer.flush(TIMEOUT_S) == 0
    (found,) = TransactionAdmin(trusting_cluster).open_transactions([TopicPartition(TopicName(name), 0)])
    assert found.start_offset == 0
    hanging = commands.succeed("transaction", "find-hanging", "--topic", f"{name}:0")
    assert hanging.lines == ["no transaction hangs in 1 partition"]
    refused = commands("transaction", "abort-hanging", "--topic", name, "--partition", "0", "--start-offset", "0")
    assert refused.code == 1
    assert f"does not hang: its coordinator knows it as that of transactional id {name!r}" in refused.error
    producer.commit_transaction(TIMEOUT_S)


# -- scripted answers


class Scene:
    """Producer 9 has an open transaction at offset 40 of the first partition, unknown to every coordinator."""

    def __init__(self, scripted: ScriptedTransactions) -> None:
        self.scripted = scripted
        self.commands = Commands(scripted.bootstrap)
        scripted.producers[ORDERS_0] = [producing(9, 40, epoch=2, timestamp_ms=1_000, coordinator_epoch=3)]

    def find(self, *arguments: str) -> Outcome:
        return self.commands("transaction", "find-hanging", *arguments)

    def abort(self, *arguments: str) -> Outcome:
        return self.commands("transaction", "abort-hanging", "--topic", "orders", "--partition", "0", *arguments)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with ScriptedTransactions({"orders": 2, "__consumer_offsets": 1}) as scripted:
        yield Scene(scripted)


def test_all_topics_are_searched_and_hanging_transactions_shown(scene: Scene) -> None:
    offsets = TopicPartition(TopicName("__consumer_offsets"), 0)
    scene.scripted.producers[offsets] = [producing(8, 5, timestamp_ms=-1)]
    header, first, second = (line.split(maxsplit=7) for line in scene.find().lines)
    assert header[:4] == ["TOPIC", "PARTITION", "PRODUCER_ID", "PRODUCER_EPOCH"]
    assert header[4:] == ["COORDINATOR_EPOCH", "START_OFFSET", "LAST_WRITTEN", "DURATION"]
    assert first == ["__consumer_offsets", "0", "8", "0", "-", "5", "-", "-"]
    assert second[:7] == ["orders", "0", "9", "2", "3", "40", "1970-01-01T00:00:01.000Z"]
    assert second[7].split()[0].endswith("d")


@pytest.mark.parametrize(
    ("chosen", "count"),
    [((), "3 partitions"), (("orders",), "2 partitions"), (("orders:1", "orders:1"), "1 partition")],
)
def test_only_the_named_partitions_are_searched(scene: Scene, chosen: tuple[str, ...], count: str) -> None:
    scene.scripted.producers.clear()
    options = [word for name in chosen for word in ("--topic", name)]
    assert scene.find(*options).lines == [f"no transaction hangs in {count}"]
    assert scene.find(*options, "--format", "json").rows == []


def test_partitions_without_a_leader_are_skipped_and_named(scene: Scene) -> None:
    def half_led(request: Request) -> MetadataResponse:
        answer = leading({}, {1: scene.scripted.endpoint})(request)
        assert isinstance(answer, MetadataResponse)
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader, replica_nodes=[], isr_nodes=[])
            for index, leader in enumerate([1, -1])
        ]
        answer.topics.append(MetadataResponseTopic(name="orders", partitions=partitions))
        return answer

    scene.scripted.scripts[MetadataRequest] = half_led
    outcome = scene.find("--format", "json")
    assert [row["start_offset"] for row in outcome.rows] == [40]
    assert outcome.error == "note: without a leader, and so not searched: orders-1\n"


def test_a_missing_topic_or_partition_is_an_error(scene: Scene) -> None:
    assert scene.find("--topic", "nosuch").error == "error: topic 'nosuch' does not exist\n"
    assert scene.find("--topic", "orders:2").error == "error: topic 'orders' has partitions 0 to 1, not 2\n"
    beyond = scene.commands(
        "transaction", "abort-hanging", "--topic", "orders", "--partition", "2", "--start-offset", "0"
    )
    assert (beyond.code, beyond.error) == (1, "error: topic 'orders' has partitions 0 to 1, not 2\n")


def test_a_hanging_transaction_is_shown_and_aborted(scene: Scene) -> None:
    outcome = scene.abort("--start-offset", "40", "--format", "json")
    (row,) = outcome.rows
    assert (row["producer_id"], row["producer_epoch"], row["coordinator_epoch"]) == (9, 2, 3)
    assert row["start_offset"] == 40
    assert outcome.error == "aborted the transaction of producer 9 in partition orders-0\n"
    (marker,) = scene.scripted.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (9, 2, 3)
    assert marker.transaction_result is False


@pytest.mark.parametrize(("given", "sent", "shown"), [("7", 7, 7), ("-1", 0, None)])
def test_a_producer_can_be_named_if_the_broker_does_not_describe_it(
    scene: Scene, given: str, sent: int, shown: int | None
) -> None:
    named = ("--producer-id", "9", "--producer-epoch", "2", "--coordinator-epoch", given)
    (row,) = scene.abort(*named, "--format", "json").rows
    assert (row["coordinator_epoch"], row["start_offset"], row["last_written"]) == (shown, None, None)
    assert [marker.coordinator_epoch for marker in scene.scripted.markers] == [sent]
    assert scene.scripted.sent(ListTransactionsRequest) == [], "nothing was checked"


def test_a_dry_run_shows_what_it_would_abort(scene: Scene) -> None:
    outcome = scene.abort("--start-offset", "40", "--dry-run")
    assert (outcome.code, outcome.error) == (0, "nothing was changed in partition orders-0\n")
    assert outcome.lines[1].split()[:6] == ["orders", "0", "9", "2", "3", "40"]
    assert scene.scripted.markers == []


@pytest.mark.parametrize(("answer", "code", "markers"), [(b"n\n", 130, 0), (b"y\n", 0, 1)])
def test_on_a_terminal_the_transaction_is_shown_and_the_abort_confirmed(
    scene: Scene, answer: bytes, code: int, markers: int
) -> None:
    arguments = ("--topic", "orders", "--partition", "0", "--start-offset", "40")
    with Terminal() as terminal:
        os.write(terminal.person, answer)
        outcome = scene.commands("transaction", "abort-hanging", *arguments, stdin=terminal.side)
    assert outcome.code == code
    assert outcome.lines[1].split()[:3] == ["orders", "0", "9"]
    assert "Abort this transaction in 'orders-0'?" in outcome.error
    assert len(scene.scripted.markers) == markers


def test_the_yes_option_skips_the_confirmation(scene: Scene) -> None:
    arguments = ("--topic", "orders", "--partition", "0", "--start-offset", "40", "--yes")
    with Terminal() as terminal:
        outcome = scene.commands("transaction", "abort-hanging", *arguments, stdin=terminal.side)
    assert (outcome.code, outcome.error) == (0, "aborted the transaction of producer 9 in partition orders-0\n")


def test_aborting_a_transaction_that_its_coordinator_will_end_is_refused(scene: Scene) -> None:
    scene.scripted.begin("copier", 9, ORDERS_0, ORDERS_1)
    for dry in ([], ["--dry-run"]):
        outcome = scene.abort("--start-offset", "40", *dry)
        assert (outcome.code, outcome.output) == (1, b"")
        assert outcome.error == (
            "error: the transaction that begins at offset 40 of orders-0 does not hang: its coordinator knows it as "
            "that of transactional id 'copier' (state Ongoing), and ends it when its time-out of 1m 0s is over\n"
        )
    assert scene.scripted.markers == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, "producer 9 has moved on from epoch 2 (INVALID_PRODUCER_EPOCH)"),
        (
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            "a coordinator of a later epoch than 3 is in charge of it (TRANSACTION_COORDINATOR_FENCED)",
        ),
    ],
)
def test_a_marker_that_is_too_late_points_to_find_hanging(scene: Scene, code: ErrorCode, reason: str) -> None:
    scene.scripted.codes = [code]
    outcome = scene.abort("--start-offset", "40")
    assert outcome.code == 1
    assert outcome.error == (
        f"error: the transaction in orders-0 was not aborted: {reason}; "
        "look again with `headwater transaction find-hanging`\n"
    )


def test_an_unexpected_refusal_is_reported_unchanged(scene: Scene) -> None:
    scene.scripted.codes = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    outcome = scene.abort("--start-offset", "40")
    assert (outcome.code, outcome.error) == (1, "error: partition orders-0: CLUSTER_AUTHORIZATION_FAILED\n")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ((), "which transaction?"),
        (("--start-offset", "1", "--producer-id", "1"), "which transaction?"),
        (("--producer-id", "1", "--producer-epoch", "1"), "which transaction?"),
        (("--start-offset", "-1"), "--start-offset"),
        (("--producer-id", "1", "--producer-epoch", "32768", "--coordinator-epoch", "0"), "--producer-epoch"),
        (("--start-offset", "1", "--dry-run", "--yes"), "--dry-run changes nothing"),
    ],
)
def test_wrong_usage_has_exit_code_2_and_a_hint(scene: Scene, arguments: tuple[str, ...], hint: str) -> None:
    outcome = scene.abort(*arguments)
    assert outcome.code == 2
    assert hint in outcome.error
    assert scene.scripted.requests == []
