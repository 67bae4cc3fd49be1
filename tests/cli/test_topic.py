import os
import subprocess
import sys

import pytest
import yaml

from headwater.client.cluster import Cluster
from tests.support.cli.commands import Commands, Terminal


def test_create_reports_the_new_topic(commands: Commands, name: str) -> None:
    made = commands.succeed("topic", "create", name, "--partitions", "2", "--set", "retention.ms=86400000")
    assert made.lines == [f"created topic {name!r} with 2 partitions, retention.ms=86400000"]
    again = commands("topic", "create", name)
    assert (again.code, again.output) == (1, b"")
    assert again.error == f"error: topic {name!r} already exists (TOPIC_ALREADY_EXISTS)\n"


def test_create_as_json_has_the_new_topic(commands: Commands, cluster: Cluster, name: str) -> None:
    made = commands.succeed(
        "topic", "create", name, "--partitions", "1", "--replication-factor", "1", "--set", "retention.ms=5",
        "--format", "json",
    )  # fmt: skip
    assert made.rows == [
        {
            "topic": name,
            "id": str(cluster.topic(name).id),
            "partitions": 1,
            "replication_factor": 1,
            "settings": {"retention.ms": "5"},
            "created": True,
        }
    ]


def test_create_succeeds_for_an_existing_topic_if_asked_to(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name)
    again = commands.succeed("topic", "create", name, "--if-not-exists")
    assert "exists already" in again.error
    assert again.output == b""


def test_a_dry_run_creates_nothing(commands: Commands, name: str) -> None:
    checked = commands.succeed("topic", "create", name, "--partitions", "1", "--dry-run")
    assert checked.lines == [f"would create topic {name!r} with 1 partition"]
    assert commands("topic", "describe", name).code == 1


def test_a_misspelt_setting_is_refused_with_the_nearest_name(commands: Commands, name: str) -> None:
    refused = commands("topic", "create", name, "--set", "retention.m=1")
    assert refused.code == 1
    assert refused.error.startswith("error: ")
    assert "did you mean 'retention.ms'?" in refused.error
    assert len(refused.error.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("create",),
        ("create", "t", "--partitions", "0"),
        ("create", "t", "--set", "retention.ms"),
        ("create", "t", "--set", "=1"),
        ("create", "t", "--format", "xml"),
        ("alter", "t"),
        ("describe",),
        ("delete",),
        ("add-partitions", "t"),
        ("nosuch",),
    ],
)
def test_wrong_usage_has_exit_code_2(commands: Commands, arguments: tuple[str, ...]) -> None:
    outcome = commands("topic", *arguments)
    assert outcome.code == 2
    assert "Usage: headwater topic" in outcome.error


def test_topics_are_listed_by_name(commands: Commands, name: str) -> None:
    for suffix in ("b", "a"):
        commands.succeed("topic", "create", f"{name}.{suffix}", "--partitions", "2")
    listed = commands.succeed("topic", "list")
    assert listed.lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    ours = [line.split() for line in listed.lines if name in line]
    assert ours == [[f"{name}.a", "2", "1"], [f"{name}.b", "2", "1"]]
    rows = commands.succeed("topic", "list", "--internal", "--format", "json").rows
    assert {"topic", "partitions", "replicas", "id", "internal"} == set(rows[0])


def test_describe_shows_partitions_offsets_and_settings_that_are_not_default(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name, "--partitions", "2", "--set", "retention.ms=5000")
    commands.succeed("produce", name, "value", "--partition", "1")

    shown = commands.succeed("topic", "describe", name)

    assert shown.lines[0].startswith(f"topic {name}  id ")
    assert shown.lines[2].split() == ["PARTITION", "LEADER", "REPLICAS", "IN_SYNC", "EARLIEST", "LATEST", "BYTES"]
    assert shown.lines[3].split()[4:] == ["0", "0", "0"]
    assert shown.lines[4].split()[4:6] == ["0", "1"]
    assert shown.lines[6].split() == ["SETTING", "VALUE", "SOURCE"]
    assert [line.split() for line in shown.lines[7:]] == [["retention.ms", "5000", "topic"]]


def test_describe_as_json_has_every_field(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name, "--partitions", "1")
    (row,) = yaml.safe_load(commands.succeed("topic", "describe", name, "--format", "yaml").output)
    assert (row["topic"], row["offsets"], row["bytes"], row["settings"]) == (name, 0, 0, [])
    assert row["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [1], "in_sync": [1], "earliest": 0, "latest": 0, "bytes": 0}
    ]
    (row,) = commands.succeed("topic", "describe", name, "--all-settings", "--format", "json").rows
    settings = {setting["setting"]: (setting["value"], setting["source"]) for setting in row["settings"]}
    assert settings["cleanup.policy"] == ("delete", "default")


def test_several_topics_are_described_one_after_another(commands: Commands, name: str) -> None:
    for suffix in ("a", "b"):
        commands.succeed("topic", "create", f"{name}.{suffix}")
    shown = commands.succeed("topic", "describe", f"{name}.a", f"{name}.b", f"{name}.a")
    assert [line.split()[1] for line in shown.lines if line.startswith("topic ")] == [f"{name}.a", f"{name}.b"]
    assert shown.lines.count("all settings have their default values") == 2


def test_a_topic_that_does_not_exist_is_one_line_and_exit_code_1(commands: Commands) -> None:
    for arguments in (("describe", "nosuch"), ("delete", "nosuch"), ("add-partitions", "nosuch", "--total", "3")):
        outcome = commands("topic", *arguments)
        assert (outcome.code, outcome.error) == (1, "error: topic 'nosuch' does not exist\n")


def test_alter_changes_the_named_settings_and_shows_them(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name, "--set", "retention.ms=5000")
    changed = commands.succeed(
        "topic", "alter", name, "--set", "cleanup.policy=compact", "--unset", "retention.ms", "--format", "json"
    )
    values = {row["setting"]: (row["value"], row["source"]) for row in changed.rows}
    assert values == {"cleanup.policy": ("compact", "topic"), "retention.ms": ("604800000", "default")}
    refused = commands("topic", "alter", name, "--set", "cleanup.policy=shred")
    assert refused.code == 1
    assert "cleanup.policy" in refused.error


def test_a_dry_run_alters_nothing(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name)
    checked = commands.succeed("topic", "alter", name, "--set", "retention.ms=5000", "--dry-run")
    assert "nothing was changed" in checked.error
    assert "604800000" in checked.lines[1]


def test_a_topic_grows(commands: Commands, cluster: Cluster, name: str) -> None:
    commands.succeed("topic", "create", name, "--partitions", "1")
    dry = commands.succeed("topic", "add-partitions", name, "--total", "3", "--dry-run", "--format", "json")
    assert dry.rows == [{"topic": name, "partitions": 3, "partitions_before": 1, "changed": False}]
    grown = commands.succeed("topic", "add-partitions", name, "--total", "3")
    assert grown.lines == [f"topic {name!r} has 3 partitions now, it had 1"]
    assert len(cluster.topic(name).partitions) == 3
    refused = commands("topic", "add-partitions", name, "--total", "2")
    assert (refused.code, refused.output) == (1, b"")
    assert "INVALID_PARTITIONS" in refused.error


def test_topics_are_deleted_and_those_deleted_before_a_refusal_are_listed(commands: Commands, name: str) -> None:
    commands.succeed("topic", "create", name)
    outcome = commands("topic", "delete", name, "nosuch", "--format", "json")
    assert outcome.code == 1
    assert outcome.rows == [{"topic": name, "deleted": True}]
    assert outcome.error == "error: topic 'nosuch' does not exist\n"
    passed = commands.succeed("topic", "delete", "nosuch", "--if-exists")
    assert passed.lines[1].split() == ["nosuch", "false"]


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 130), (b"y\n", 0)])
def test_deleting_topics_asks_for_confirmation_on_a_terminal(
    commands: Commands, name: str, answer: bytes, code: int
) -> None:
    commands.succeed("topic", "create", name)
    with Terminal() as terminal:
        os.write(terminal.person, answer)
        outcome = commands("topic", "delete", name, stdin=terminal.side)
    assert outcome.code == code
    assert f"Delete {name!r} and all records?" in outcome.output.decode()
    assert commands("topic", "describe", name).code == (1 if code == 0 else 0)


def test_an_unreachable_broker_is_one_line_with_advice() -> None:
    outcome = Commands("127.0.0.1:1")("topic", "list")
    assert outcome.code == 1
    assert outcome.error == (
        "error: cannot reach 127.0.0.1:1: Connection refused; is the broker running? (--bootstrap)\n"
    )
    wrong = Commands("nowhere")("topic", "list", "--bootstrap", "also-nowhere")
    assert wrong.code == 1
    assert "'also-nowhere' is not of the form HOST:PORT" in wrong.error


@pytest.mark.parametrize(
    "command",
    [
        "topic", "topic create", "topic list", "topic describe", "topic alter", "topic delete", "topic add-partitions",
        "produce", "consume", "log", "log dump", "group", "group list", "group describe", "group members",
        "group offsets", "group reset", "group delete",
    ],
)  # fmt: skip
def test_help_does_not_import_modules_that_only_running_needs(command: str) -> None:
    script = (
        "import sys; from headwater.cli.main import run; code = run([*sys.argv[1:], '--help']); "
        "heavy = {'headwater.client', 'headwater.protocol', 'headwater.storage', 'rich', 'orjson', 'yaml', 'socket'}; "
        "print(sorted(heavy & set(sys.modules)), code, file=sys.stderr)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script, *command.split()], capture_output=True, check=True, timeout=60
    )
    assert finished.stderr.decode().strip() == "[] 0"
    assert f"Usage: headwater {command}" in finished.stdout.decode()
