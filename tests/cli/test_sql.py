"""`headwater sql` on a real Spark: all statements in one process, which starts one Java."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.testing import Broker
from tests.support.cli.commands import Commands, Outcome
from tests.support.cli.program import run_together

pytestmark = pytest.mark.xdist_group("own-spark")

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


@pytest.fixture(scope="module")
def queried() -> Iterator[dict[str, Outcome]]:
    with Broker({"num.partitions": "1"}) as broker:
        commands = Commands(broker.bootstrap_servers)
        for topic in ("my-orders", "raw", "nothing"):
            commands.succeed("topic", "create", topic)
        lines = b"\n".join(b'k%d\t{"amount": %d}' % (number, number) for number in range(3))
        commands.succeed("produce", "my-orders", "--key-separator", "\t", "--quiet", typed=lines)
        commands.succeed("produce", "raw", "--quiet", typed=b"\xff\x00")
        formats = {"json": "json", "rows": "json", "cut": "csv"}
        steps = [
            ["sql", statement, "--format", formats.get(name, "table"), "--limit", "2" if name == "cut" else "100"]
            for name, statement in STATEMENTS.items()
        ]
        yield dict(zip(STATEMENTS, run_together(broker.bootstrap_servers, *steps), strict=True))


def rows(outcome: Outcome) -> list[Any]:
    assert outcome.code == 0, outcome.error
    return json.loads(outcome.output)


def test_json_values_are_opened_and_columns_of_one_name_told_apart(queried: dict[str, Outcome]) -> None:
    assert rows(queried["json"]) == [
        {"key": "k0", "key_2": "k2", "twice": 0},
        {"key": "k1", "key_2": "k1", "twice": 2},
        {"key": "k2", "key_2": "k0", "twice": 4},
    ]


def test_a_topic_has_the_columns_of_a_read_with_text_for_keys_and_values(queried: dict[str, Outcome]) -> None:
    (row,) = rows(queried["rows"])

    assert list(row) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert (row["key"], row["value"], row["topic"], row["offset"]) == ("k1", '{"amount": 1}', "my-orders", 1)


def test_what_is_no_text_is_shown_in_hexadecimal_digits_and_a_topic_without_records_is_an_empty_table(
    queried: dict[str, Outcome],
) -> None:
    assert [line.split() for line in queried["bytes"].lines] == [["VALUE", "RECORDS"], ["0xFF00", "0"]]


def test_rows_beyond_the_limit_are_left_out_and_it_is_said(queried: dict[str, Outcome]) -> None:
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
def test_a_statement_that_fails_is_told_with_what_to_change(
    queried: dict[str, Outcome], name: str, message: str
) -> None:
    assert queried[name].code == 1
    assert message in queried[name].error
