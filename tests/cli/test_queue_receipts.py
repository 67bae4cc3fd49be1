"""`headwater queue receive`, `ack`, `nack`, `reject`, `extend`, `peek` and `stats`."""

from typing import Any

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.producer import Producer
from tests.support.cli.commands import Commands


@pytest.fixture
def group(cluster: Cluster, name: str) -> str:
    """A group that has yet to read the five records of a topic."""
    Admin(cluster).create_topic(name, partition_count=1)
    with Producer(cluster) as producer:
        for number in range(5):
            producer.send(name, b"v%d" % number, key=b"\xff" if number else None)
    return f"{name}-workers"


def receive(commands: Commands, name: str, group: str, *options: str) -> list[dict[str, Any]]:
    outcome = commands.succeed("queue", "receive", name, "--group", group, "--format", "json", *options)
    return outcome.rows


def test_a_queue_is_worked_on(commands: Commands, name: str, group: str) -> None:
    rows = receive(commands, name, group, "--max", "4", "--lock", "20s")
    assert [(each["offset"], each["value"], each["delivery"]) for each in rows] == [
        (0, "v0", 1),
        (1, "v1", 1),
        (2, "v2", 1),
        (3, "v3", 1),
    ]
    assert (rows[0]["key"], rows[1]["key_base64"]) == (None, "/w==")
    first, second, third, fourth = (each["receipt"] for each in rows)
    (settled,) = commands.succeed("queue", "ack", first, "--group", group, "--format", "json").rows
    assert settled == {"receipt": first, "settled": True, "reason": None}
    commands.succeed("queue", "extend", second, third, "--group", group, "--lock", "30s")
    commands.succeed("queue", "nack", second, "--group", group, "--delay", "1h")
    commands.succeed("queue", "reject", third, "--group", group)

    peeked = commands.succeed("queue", "peek", name, "--group", group, "--max", "9", "--format", "json").rows
    assert [(each["offset"], each["state"], each["deliveries"]) for each in peeked] == [
        (1, "waiting", 1),
        (3, "held", 1),
        (4, "available", 0),
    ]
    (stats,) = commands.succeed("queue", "stats", "--group", group, "--format", "json").rows
    assert (stats["backlog"], stats["held"], stats["waiting"], stats["deliveries"]) == (3, 1, 1, 4)
    assert (stats["accepted"], stats["archived"], stats["start"], stats["end"]) == (1, 1, 1, 5)
    header, line = commands.succeed("queue", "stats", name, "--group", group).lines
    assert header.split() == [
        "TOPIC", "PARTITION", "BACKLOG", "HELD", "WAITING", "OLDEST", "DELIVERIES", "ACCEPTED", "ARCHIVED"
    ]  # fmt: skip
    assert line.split()[:5] == [name, "0", "3", "1", "1"]
    commands.succeed("queue", "ack", "-", "--group", group, typed=f"{fourth}\n".encode())


def test_tables_are_for_people(commands: Commands, name: str, group: str) -> None:
    header, line = commands.succeed("queue", "receive", name, "--group", group).lines
    assert header.split() == ["TOPIC", "PARTITION", "OFFSET", "DELIVERY", "KEY", "VALUE", "RECEIPT"]
    *cells, receipt = line.split()
    assert cells == [name, "0", "0", "1", "-", "v0"]
    assert commands.succeed("queue", "ack", receipt, "--group", group).lines[1].split() == [receipt, "true"]
    assert len(commands.succeed("queue", "peek", name, "--group", group, "--max", "2").lines) == 3
    commands.succeed("queue", "receive", name, "--group", group, "--max", "9")
    assert commands.succeed("queue", "receive", name, "--group", group).lines == ["no record is available"]


def test_a_refused_receipt_is_named_and_the_others_count(commands: Commands, name: str, group: str) -> None:
    (row,) = receive(commands, name, group)
    outcome = commands("queue", "ack", row["receipt"], "nonsense", "--group", group, "--format", "json")
    assert outcome.code == 1
    assert [(each["settled"], "no receipt" in (each["reason"] or "")) for each in outcome.rows] == [
        (True, False),
        (False, True),
    ]
    again = commands("queue", "nack", row["receipt"], "--group", group)
    assert again.code == 1
    assert "settled already, or its lock ran out" in again.output.decode()


def test_a_group_begins_at_the_end_if_it_is_told_to(commands: Commands, name: str, group: str) -> None:
    assert receive(commands, name, group, "--from", "end") == []
    (stats,) = commands.succeed("queue", "stats", "--group", group, "--format", "json").rows
    assert (stats["backlog"], stats["oldest_age_ms"]) == (0, None)
    assert commands.succeed("queue", "peek", name, "--group", group).lines == [
        f"group {group!r} is done with all records"
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("receive", "no-such-topic", "--group", "g"), 1, "does not exist"),
        (("receive", "orders"), 2, "--group"),
        (("receive", "orders", "--group", "g", "--max", "1001"), 2, "1001"),
        (("receive", "orders", "--group", "g", "--wait", "5"), 2, "unit"),
        (("ack", "-", "other", "--group", "g"), 2, "stands alone"),
        (("stats", "--group", "no-such-group"), 1, "does not exist"),
    ],
)
def test_mistakes_are_told(commands: Commands, arguments: tuple[str, ...], code: int, text: str) -> None:
    outcome = commands("queue", *arguments)
    assert outcome.code == code
    assert text in outcome.error
