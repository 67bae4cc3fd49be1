"""`headwater sql` on a real Spark: one statement in a process of its own, the others in the shared session of tests."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from headwater.testing import Broker
from tests.support.cli.commands import Commands, Outcome
from tests.support.cli.program import run_together
from tests.support.spark.sessions import SharedSparkCommands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATEMENTS = {
    "json": "SELECT a.key, b.key, parse_json(a.value):amount::int * 2 AS twice "
    "FROM headwater.`my-orders` a JOIN headwater.`my-orders` b ON a.offset + b.offset = 2 ORDER BY a.offset",
    "rows": "SELECT * FROM headwater.`my-orders` WHERE offset = 1",
    "bytes": "SELECT value, (SELECT count(*) FROM headwater.nothing) AS records FROM headwater.raw",
    "cut": "SELECT offset FROM headwater.`my-orders`",
    "misspelt": "SELECT * FROM headwater.rwa",
    "bare": "SELECT * FROM raw",
    "wrong": "SELEC 1",
    "failing": "SELECT raise_error('too bad') FROM headwater.raw",
}


FORMATS = {"json": "json", "rows": "json", "cut": "csv"}


@pytest.fixture(scope="module")
def queried_broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "1"}) as broker:
        commands = Commands(broker.bootstrap_servers)
        for topic in ("my-orders", "raw", "nothing"):
            commands.succeed("topic", "create", topic)
        lines = b"\n".join(b'k%d\t{"amount": %d}' % (number, number) for number in range(3))
        commands.succeed("produce", "my-orders", "--key-separator", "\t", "--quiet", typed=lines)
        commands.succeed("produce", "raw", "--quiet", typed=b"\xff\x00")
        yield broker


def question(name: str) -> list[str]:
    return ["sql", STATEMENTS[name], "--format", FORMATS.get(name, "table"), "--limit", "2" if name == "cut" else "100"]


@pytest.fixture(scope="module")
def queried(queried_broker: Broker, spark: "SparkSession") -> dict[str, Outcome]:
    commands = SharedSparkCommands(queried_broker.bootstrap_servers, spark)
    return {name: commands(*question(name)) for name in STATEMENTS}


def rows(outcome: Outcome) -> list[Any]:
    assert outcome.code == 0, outcome.error
    return json.loads(outcome.output)


JOINED = [
    {"key": "k0", "key_2": "k2", "twice": 0},
    {"key": "k1", "key_2": "k1", "twice": 2},
    {"key": "k2", "key_2": "k0", "twice": 4},
]


def test_json_values_become_columns_and_duplicate_column_names_are_told_apart(queried: dict[str, Outcome]) -> None:
    assert rows(queried["json"]) == JOINED


@pytest.mark.spark
def test_a_statement_starts_and_stops_its_own_spark(queried_broker: Broker) -> None:
    (outcome,) = run_together(queried_broker.bootstrap_servers, question("json"))

    assert rows(outcome) == JOINED


def test_a_topic_has_the_columns_of_a_read_with_text_for_keys_and_values(queried: dict[str, Outcome]) -> None:
    (row,) = rows(queried["rows"])

    assert list(row) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert (row["key"], row["value"], row["topic"], row["offset"]) == ("k1", '{"amount": 1}', "my-orders", 1)


def test_binary_values_are_shown_in_hexadecimal_and_an_empty_topic_is_an_empty_table(
    queried: dict[str, Outcome],
) -> None:
    assert [line.split() for line in queried["bytes"].lines] == [["VALUE", "RECORDS"], ["0xFF00", "0"]]


def test_rows_beyond_the_limit_are_left_out_with_a_notice(queried: dict[str, Outcome]) -> None:
    assert queried["cut"].lines == ["offset", "0", "1"]
    assert "there are more than 2 rows: --limit shows more of them" in queried["cut"].error


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("misspelt", "there is no topic 'rwa'; did you mean 'raw'?"),
        ("bare", "headwater.orders for the topic orders"),
        (
            "wrong",
            "the statement is no SQL that Spark understands: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'",
        ),
        ("failing", "the query failed: [USER_RAISED_EXCEPTION] too bad"),
    ],
)
def test_a_failing_statement_is_reported_with_advice(queried: dict[str, Outcome], name: str, message: str) -> None:
    assert queried[name].code == 1
    assert message in queried[name].error


def test_an_error_is_its_sentence_alone_unless_the_stacks_are_asked_for(
    queried_broker: Broker, spark: "SparkSession", capfd: pytest.CaptureFixture[str]
) -> None:
    commands = SharedSparkCommands(queried_broker.bootstrap_servers, spark)
    short, long = (commands("sql", "SELECT * FROM headwater.nosuch", *more) for more in ((), ("--verbose",)))

    sentence = "error: there is no topic 'nosuch'"
    assert short.error.splitlines() == [sentence]
    assert (long.code, long.error.splitlines()[0]) == (1, sentence)
    assert "org.apache.spark.sql.AnalysisException" in long.error
    # Spark itself shows nothing beside it.
    assert "nosuch" not in capfd.readouterr().err
