from collections.abc import Iterator

import pytest
import yaml
from confluent_kafka import Producer

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.transactions.admin import TransactionAdmin
from headwater.client.transactions.staging import publish
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.transactions.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headwater.testing import Broker
from tests.support.cli.commands import Commands
from tests.support.client.scripted_transactions import ORDERS_0, ORDERS_1, ScriptedTransactions, producing

TIMEOUT_S = 20


@pytest.fixture
def transactional_id(name: str) -> str:
    return f"{name}.copier"


@pytest.fixture
def producer(broker: Broker, cluster: Cluster, name: str, transactional_id: str) -> Iterator[Producer]:
    """A producer with an open transaction that begins at offset 1 of the first of two partitions."""
    Admin(cluster).create_topic(name, partition_count=2)
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers})
    plain.produce(name, b"before", partition=0)
    assert plain.flush(TIMEOUT_S) == 0
    made = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 50_000,
        }
    )
    made.init_transactions(TIMEOUT_S)
    made.begin_transaction()
    made.produce(name, b"inside", partition=0)
    assert made.flush(TIMEOUT_S) == 0
    yield made
    made.abort_transaction(TIMEOUT_S)


# -- at a real broker


@pytest.mark.usefixtures("producer")
def test_transactions_are_listed_and_filtered(commands: Commands, cluster: Cluster, transactional_id: str) -> None:
    def listed(*options: str) -> list[str]:
        rows = commands.succeed("transaction", "list", "--format", "json", *options).rows
        return [row["transactional_id"] for row in rows if row["transactional_id"] == transactional_id]

    producer_id = TransactionAdmin(cluster).describe_transaction(transactional_id).producer_id
    for matching in (
        (),
        ("--state", "ongoing"),
        ("--state", "Empty", "--state", "Ongoing"),
        ("--producer-id", str(producer_id)),
        ("--longer-than", "0ms", "--state", "Ongoing"),
        ("--match", f"{transactional_id[:5]}.*"),
        ("--match", transactional_id.replace(".", r"\.")),
    ):
        assert listed(*matching) == [transactional_id], matching
    for other in (
        ("--state", "Empty"),
        ("--producer-id", str(producer_id + 1_000_000)),
        ("--longer-than", "1h"),
        ("--match", transactional_id[:-1]),
    ):
        assert listed(*other) == [], other
    header, line = commands.succeed("transaction", "list", "--match", transactional_id).lines
    assert header.split() == ["TRANSACTIONAL_ID", "STATE", "PRODUCER_ID", "COORDINATOR"]
    assert line.split() == [transactional_id, "Ongoing", str(producer_id), "1"]


@pytest.mark.usefixtures("producer")
def test_an_invalid_pattern_is_refused_with_an_example(commands: Commands) -> None:
    outcome = commands("transaction", "list", "--match", "(")
    assert (outcome.code, outcome.output) == (1, b"")
    assert "--match '(' is not a regular expression that the broker accepts" in outcome.error
    assert "such as 'copier-.*'" in outcome.error


@pytest.mark.usefixtures("producer")
def test_an_open_transaction_is_described_with_its_first_offset(
    commands: Commands, name: str, transactional_id: str
) -> None:
    summary, _, header, line = commands.succeed("transaction", "describe", transactional_id).lines
    words = summary.split("  ")
    assert words[:2] == [f"transactional id {transactional_id}", "state Ongoing"]
    assert words[2].startswith("since 20")
    assert ", for " in words[2]
    assert words[5:] == ["time-out 50000 ms", f"coordinator 1 at {commands.bootstrap}"]
    assert header.split() == ["TOPIC", "PARTITION", "START_OFFSET", "LAST_WRITTEN"]
    assert line.split()[:3] == [name, "0", "1"]
    (row,) = yaml.safe_load(commands.succeed("transaction", "describe", transactional_id, "--format", "yaml").output)
    assert (row["state"], row["timeout_ms"], row["coordinator_address"]) == ("Ongoing", 50_000, commands.bootstrap)
    (partition,) = row["partitions"]
    assert (partition["topic"], partition["partition"], partition["start_offset"]) == (name, 0, 1)
    assert row["started_ms"] - 60_000 < partition["last_written_ms"] < row["started_ms"] + 60_000


def test_an_ended_transaction_is_open_in_no_partition(
    commands: Commands, broker: Broker, cluster: Cluster, name: str
) -> None:
    Admin(cluster).create_topic(name, partition_count=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    assert commands.succeed("transaction", "describe", name).lines[0].split("  ")[1:3] == ["state Empty", "began -"]
    producer.begin_transaction()
    producer.produce(name, b"v")
    producer.commit_transaction(TIMEOUT_S)
    admin = TransactionAdmin(cluster)
    # The coordinator answers once it has decided the outcome, and writes the markers after that.
    while admin.describe_transaction(name).state != "CompleteCommit":
        pass
    shown = commands.succeed("transaction", "describe", name)
    assert shown.lines[-1] == "no partition waits for its end"
    assert shown.lines[0].split("  ")[2].startswith("began 20")
    assert admin.open_transactions([TopicPartition(TopicName(name), 0)]) == []


def test_an_application_is_shown_with_the_batch_that_it_published_last(
    commands: Commands, cluster: Cluster, transactional_id: str
) -> None:
    publish(cluster, transactional_id, 42, [])
    shown = commands.succeed("transaction", "describe", transactional_id)

    assert shown.lines[0].split("  ")[1] == "state Empty"
    assert shown.lines[0].endswith("  published batch 42")
    (row,) = commands.succeed("transaction", "describe", transactional_id, "--format", "json").rows
    assert row["published_batch_id"] == 42


def test_an_id_that_does_not_exist_is_one_line_and_exit_code_1(commands: Commands) -> None:
    outcome = commands("transaction", "describe", "nosuch")
    assert (outcome.code, outcome.error) == (1, "error: transactional id 'nosuch' does not exist\n")


# -- scripted answers


@pytest.fixture
def scripted() -> Iterator[ScriptedTransactions]:
    with ScriptedTransactions() as broker:
        yield broker


def filters(scripted: ScriptedTransactions) -> ListTransactionsRequest:
    request = scripted.sent(ListTransactionsRequest)[-1]
    assert isinstance(request, ListTransactionsRequest)
    return request


def test_longer_than_alone_asks_for_open_transactions(scripted: ScriptedTransactions) -> None:
    commands = Commands(scripted.bootstrap)
    commands.succeed("transaction", "list", "--longer-than", "30s")
    assert filters(scripted).duration_filter == 30_000
    assert sorted(filters(scripted).state_filters) == ["Ongoing", "PrepareAbort", "PrepareCommit", "PrepareEpochFence"]
    commands.succeed("transaction", "list", "--longer-than", "30s", "--state", "completecommit")
    assert filters(scripted).state_filters == ["CompleteCommit"]
    commands.succeed("transaction", "list")
    assert (filters(scripted).state_filters, filters(scripted).duration_filter) == ([], -1)


def test_an_unexpected_refusal_to_list_is_reported_unchanged(scripted: ScriptedTransactions) -> None:
    refusal = ListTransactionsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, unknown_state_filters=[], transaction_states=[]
    )
    scripted.scripts[ListTransactionsRequest] = lambda _: refusal
    outcome = Commands(scripted.bootstrap)("transaction", "list")
    assert outcome.code == 1
    assert outcome.error.endswith(": CLUSTER_AUTHORIZATION_FAILED\n")


def test_partitions_without_an_answer_show_a_dash(scripted: ScriptedTransactions) -> None:
    gone = TopicPartition(TopicName("gone"), 0)
    scripted.begin("copier", 7, ORDERS_0, ORDERS_1, gone)
    # The transaction of another producer is not shown.
    scripted.producers = {ORDERS_0: [producing(7, 40, timestamp_ms=-1)], ORDERS_1: [producing(8, 41)]}
    lines = Commands(scripted.bootstrap).succeed("transaction", "describe", "copier").lines
    assert [line.split() for line in lines[3:]] == [
        ["gone", "0", "-", "-"],
        ["orders", "0", "40", "-"],
        ["orders", "1", "-", "-"],
    ]
    assert lines[0].startswith("transactional id copier  state Ongoing  since 1970-01-01T00:00:01.000Z, for ")


def test_control_sequences_in_an_id_are_shown_as_text(scripted: ScriptedTransactions) -> None:
    scripted.begin("\x1b[31m", 7)
    commands = Commands(scripted.bootstrap)
    assert r"transactional id \x1b[31m  state" in commands.succeed("transaction", "describe", "\x1b[31m").lines[0]
    assert commands.succeed("transaction", "list").lines[1].split()[0] == r"\x1b[31m"


# -- usage


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("list", "--state", "Sleepy"), "--state"),
        (("list", "--producer-id", "-1"), "--producer-id"),
        (("list", "--longer-than", "30"), "500ms, 30s, 15m"),
        (("describe",), "ID"),
        (("find-hanging", "--topic", "t:x"), "orders:0,2"),
        (("find-hanging", "--max-timeout", "soon"), "500ms, 30s, 15m"),
        (("abort-hanging", "--topic", "t"), "--partition"),
    ],
)
def test_wrong_usage_has_exit_code_2_and_a_hint(arguments: tuple[str, ...], hint: str) -> None:
    outcome = Commands("127.0.0.1:1")("transaction", *arguments)
    assert outcome.code == 2
    assert "Usage: headwater transaction" in outcome.error
    assert hint in outcome.error


@pytest.mark.parametrize("command", ["list", "describe", "find-hanging", "abort-hanging"])
def test_help_has_examples_that_can_be_run(command: str) -> None:
    shown = Commands("127.0.0.1:1").succeed("transaction", command, "--help").output.decode()
    assert "Examples:" in shown
    assert f"headwater transaction {command}" in shown
