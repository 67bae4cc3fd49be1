"""`headwater queue dead-letters list`, `show`, `redrive` and `purge`."""

import os
import signal
import time

import pytest

from headwater.client.cluster import Cluster
from headwater.client.offsets import LATEST, list_offsets
from headwater.client.producer import Producer
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.dead_letter_headers import Reason
from tests.support.cli.commands import Commands, Outcome, Terminal
from tests.support.client.dead_letters import bury, contents, letter_topic, origin, switch_on, values
from tests.support.kafka.topic_contents import DEADLINE_S


def letters(commands: Commands, *arguments: str) -> Outcome:
    return commands("queue", "dead-letters", *arguments)


def test_help_names_the_commands(commands: Commands) -> None:
    lines = commands.succeed("queue", "dead-letters", "--help").output.decode()
    for name in ("list", "show", "redrive", "purge"):
        assert f"\n  {name} " in lines


def test_letters_are_listed(commands: Commands, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each, reason=Reason(each)) for each in range(3)], key=b"\xff" * 100)
    outcome = letters(commands, "list", dlq)
    header, *lines = outcome.lines
    assert header.split() == [
        "PLACE", "ORIGIN", "GROUP", "REASON", "ATTEMPTS", "GIVEN_UP", "STATE", "REDRIVES", "BYTES", "KEY",
    ]  # fmt: skip
    assert lines[0].split()[:9] == [
        "0-0", f"{topic}/0@0", "billing", "rejected", "5", "2023-11-14T22:13:20.000Z", "waiting", "0", "107"
    ]  # fmt: skip
    assert len(lines) == 3
    assert len(lines[0]) < 250
    rows = letters(commands, "list", dlq, "--max", "2", "--format", "json")
    assert [(each["place"], each["reason"]) for each in rows.rows] == [("0-0", "rejected"), ("0-1", "exhausted")]
    assert "there are more: --after 0-1" in rows.error
    (row,) = letters(commands, "list", dlq, "--after", "0-1", "--format", "json").rows
    assert row["place"] == "0-2"
    (row,) = letters(commands, "list", dlq, "--reason", "exhausted", "--format", "json").rows
    assert (row["origin_topic"], row["origin_offset"], row["content"], row["state"]) == (topic, 1, "copied", "waiting")
    assert "place: 0-1" in letters(commands, "list", dlq, "--reason", "exhausted", "--format", "yaml").output.decode()
    assert letters(commands, "list", dlq, "--origin-topic", "none").lines == [f"topic '{dlq}' has no such dead letters"]
    assert letters(commands, "list", dlq, "--since", "2030-01-01", "--format", "json").rows == []


def test_topics_and_groups_are_found(commands: Commands, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 0, group=f"{topic}-g")])
    (row,) = [each for each in letters(commands, "list", "--format", "json").rows if each["topic"] == dlq]
    assert row == {"topic": dlq, "partitions": 1, "records": 1}
    assert "there is no dead-letter topic of group" in letters(commands, "list", "--group", "nobody").error
    switch_on(cluster, f"{topic}-g")
    with Producer(cluster) as producer:
        producer.send(topic, b"work")
    commands.succeed("queue", "receive", topic, "--group", f"{topic}-g")
    (row,) = letters(commands, "list", "--group", f"{topic}-g", "--format", "json").rows
    assert (row["topic"], row["group"]) == (dlq, f"{topic}-g")


def test_one_is_shown_with_all_that_is_in_it(commands: Commands, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 3)], value=b"\xff\x00", headers=(("trace", b"1"), ("none", None)))
    (row,) = letters(commands, "show", dlq, "0-0", "--format", "json").rows
    assert (row["key"], row["value_base64"], row["message"]) == (
        "k", "/wA=", "Offset delivery count exceeded the threshold."
    )  # fmt: skip
    assert row["headers"] == [{"name": "trace", "value": "1"}, {"name": "none", "value": None}]
    lines = letters(commands, "show", dlq, "0-0").lines
    assert [each.split()[0] for each in lines][:4] == ["FIELD", "topic", "place", "origin"]
    assert "headers              trace=1, none=-" in lines


def test_letters_are_put_back(commands: Commands, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each, reason=Reason(each % 2)) for each in range(4)])
    (row,) = letters(commands, "redrive", dlq, "--all", "--dry-run", "--format", "json").rows
    assert row == {"topic": dlq, "would_redrive": 4, "redriven_before": 0, "failed": 0, "failures": []}
    assert contents(cluster, topic) == []
    header, line = letters(commands, "redrive", dlq, "--reason", "rejected").lines
    assert (header.split(), line.split()) == (["TOPIC", "REDRIVEN", "REDRIVEN_BEFORE", "FAILED"], [dlq, "2", "0", "0"])
    assert values(cluster, topic) == [0, 2]
    (row,) = letters(commands, "redrive", dlq, "0-1", "0-2", "--format", "json").rows
    assert (row["redriven"], row["redriven_before"]) == (1, 1)
    rows = letters(commands, "list", dlq, "--state", "waiting", "--format", "json").rows
    assert [each["place"] for each in rows] == ["0-3"]


def test_letters_that_fail_are_named(commands: Commands, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 0), *(origin("t.deleted", each) for each in range(1, 31))])
    outcome = letters(commands, "redrive", dlq, "--all", "--format", "json")
    assert outcome.code == 1
    (row,) = outcome.rows
    assert (row["redriven"], row["failed"], len(row["failures"])) == (1, 30, 20)
    assert "0-1: topic 't.deleted' does not exist; put it into another topic" in outcome.error
    assert outcome.error.endswith("and 10 more\n")
    (row,) = letters(commands, "redrive", dlq, "--all", "--to", topic, "--format", "json").rows
    assert (row["redriven"], row["redriven_before"]) == (30, 1)


def test_a_terminal_shows_progress(commands: Commands, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(10)])
    with Terminal() as terminal:
        outcome = commands("queue", "dead-letters", "redrive", dlq, "--all", stderr=terminal.side)
        assert b"10 redriven" in terminal.shown()
    assert outcome.code == 0


def test_letters_are_purged(commands: Commands, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, each) for each in range(6)])
    refused = commands("queue", "dead-letters", "purge", dlq, "--all", typed=b"n\n")
    assert refused.code == 130
    assert "Delete 6 offsets in 1 partitions" in refused.error
    assert letters(commands, "purge", dlq, "--redriven").lines == [f"topic '{dlq}' has nothing of that kind"]
    header, line = letters(commands, "purge", dlq, "--through", "0-1", "--yes").lines
    assert header.split() == ["TOPIC", "PARTITION", "DELETED", "FIRST_LEFT"]
    assert line.split() == [dlq, "0", "2", "2"]
    assert letters(commands, "purge", dlq, "--older-than", "1h", "--yes", "--format", "json").rows == []
    (row,) = commands("queue", "dead-letters", "purge", dlq, "--all", "--format", "json", typed=b"y\n").rows
    assert (row["deleted"], row["first_left"]) == (4, 6)
    assert contents(cluster, dlq) == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("list", "no-such-topic"), 1, "does not exist"),
        (("list", "--reason", "rejected"), 2, "name the TOPIC"),
        (("list", "t.dlq", "--reason", "boredom"), 2, "boredom"),
        (("list", "t.dlq", "--max", "0"), 2, "0 is not in the range"),
        (("show", "t.dlq"), 2, "PLACE"),
        (("show", "t.dlq", "seventeen"), 2, "'seventeen' is no place, such as 0-17"),
        (("redrive", "t.dlq"), 2, "choose letters"),
        (("redrive", "t.dlq", "0-1", "--all"), 2, "choose letters"),
        (("redrive", "t.dlq", "--all", "--group", "g"), 2, "choose letters"),
        (("redrive", "t.dlq", "--all", "--rate", "0"), 2, "0 is not in the range"),
        (("redrive", "no-such-topic", "--all"), 1, "does not exist"),
        (("purge", "t.dlq"), 2, "choose one of"),
        (("purge", "t.dlq", "--all", "--redriven"), 2, "choose one of"),
    ],
)
def test_mistakes_are_told(commands: Commands, arguments: tuple[str, ...], code: int, text: str) -> None:
    outcome = letters(commands, *arguments)
    assert outcome.code == code
    assert text in outcome.error


def test_other_topics_are_left_alone(commands: Commands, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    with Producer(cluster) as producer:
        producer.send(topic, b"precious")
    for arguments in (("list", topic), ("redrive", topic, "--all"), ("purge", topic, "--all", "--yes")):
        outcome = letters(commands, *arguments)
        assert outcome.code == 1
        assert f"'{topic}' is no dead-letter topic" in outcome.error
        assert f"its dead letters are in '{dlq}'" in outcome.error
    assert [each.value for each in contents(cluster, topic)] == [b"precious"]
    assert "cannot be put back into it" in letters(commands, "redrive", dlq, "--all", "--to", dlq).error


def test_a_redrive_that_is_killed_neither_loses_nor_doubles(commands: Commands, cluster: Cluster) -> None:
    """Killed as soon as something is written that was not there before: in the middle of a transaction."""
    topic, dlq = letter_topic(cluster, 2)
    for partition in (0, 1):
        bury(cluster, dlq, [origin(topic, 1000 * partition + each) for each in range(1000)], partition=partition)
    partitions = [TopicPartition(TopicName(topic), each) for each in (0, 1)]

    def written() -> int:
        return sum(list_offsets(cluster, partitions, LATEST).values())

    for _ in range(3):
        before = written()
        process = commands.start("queue", "dead-letters", "redrive", dlq, "--all", "--rate", "300")
        deadline = time.monotonic() + DEADLINE_S
        while written() == before:
            assert time.monotonic() < deadline, "nothing is put back"
            assert process.poll() is None, process.communicate()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    commands.succeed("queue", "dead-letters", "redrive", dlq, "--all")
    assert values(cluster, topic) == list(range(2000))
    assert letters(commands, "list", dlq, "--state", "waiting", "--format", "json").rows == []
