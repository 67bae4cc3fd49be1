"""`headwater produce --value-format` and what `headwater consume` decodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.testing import Broker
from tests.support.broker.settings import NO_HOUSEKEEPING
from tests.support.cli.commands import Commands

AVRO = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null},'
    '{"name":"raw","type":"bytes","default":""}]}'
)
JSON = '{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; } message Refund { string reason = 1; }'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**NO_HOUSEKEEPING, "num.partitions": "1", "headwater.schemas.enable": "true"}, http=True) as running:
        yield running


@pytest.fixture(autouse=True)
def registry(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_REGISTRY", broker.http_url)


def consumed(commands: Commands, topic: str, *options: str) -> list[Any]:
    return [each["value"] for each in commands.succeed("consume", topic, "--format", "json", *options).rows]


@pytest.mark.parametrize(
    ("kind", "file_name", "schema", "value", "shown"),
    [
        (
            "avro",
            "order.avsc",
            AVRO,
            '{"id": 7, "note": {"string": "x"}, "raw": "\\u00ff"}',
            {"id": 7, "note": "x", "raw": "ÿ"},
        ),
        ("json", "order.json", JSON, '{"id": 7}', {"id": 7}),
        ("protobuf", "order.proto", PROTO, '{"id": 7}', {"id": "7"}),
    ],
)
def test_values_are_written_with_a_schema_and_decoded(
    commands: Commands, tmp_path: Path, kind: str, file_name: str, schema: str, value: str, shown: Any
) -> None:
    topic = f"typed-{kind}"
    file = tmp_path / file_name
    file.write_text(schema)
    lines = f"{value}\n{value}\n".encode()
    commands.succeed("produce", topic, "--value-format", kind, "--schema", str(file), "--quiet", typed=lines)
    # The latest version, and a schema's number.
    schema_id = commands.succeed("schema", "list", f"{topic}-value", "--format", "json").rows[0]["id"]
    if kind != "json":
        commands.succeed("produce", topic, value, "--value-format", kind)
    else:
        commands.succeed("produce", topic, value, "--value-format", kind, "--schema-id", str(schema_id))
    commands.succeed("produce", topic, value, "--value-format", kind, "--schema-id", str(schema_id))
    assert consumed(commands, topic) == [shown] * 4
    plain = commands.succeed("consume", topic, "--value-format", "binary", "--max", "1").output
    assert plain.startswith(b"\0" + schema_id.to_bytes(4, "big"))
    refused = commands("produce", topic, '{"id": "seven"}', "--value-format", kind, "--schema-id", str(schema_id))
    assert refused.code == 1
    assert "value 1: the value does not follow schema" in refused.error
    not_json = commands("produce", topic, "{", "--value-format", kind, "--schema-id", str(schema_id))
    assert not_json.code == 1


def test_a_message_is_chosen(commands: Commands, name: str, tmp_path: Path) -> None:
    file = tmp_path / "order.proto"
    file.write_text(PROTO)
    arguments = ("--value-format", "protobuf", "--schema", str(file), "--message", "Refund")
    commands.succeed("produce", name, '{"reason": "broken"}', *arguments)
    assert consumed(commands, name) == [{"reason": "broken"}]


def test_what_has_no_number_stays_as_it_is(commands: Commands, name: str) -> None:
    commands.succeed("produce", name, "--quiet", typed=b'{"id": 7}\n\0\0\0\0\x7fno schema\n\0\n')
    shown = commands.succeed("consume", name)
    assert shown.lines == ['{"id": 7}', "\0\0\0\0\x7fno schema", "\0"]
    assert shown.error.count("note: ") == 1
    assert "Schema 127 not found" in shown.error
    strict = commands("consume", name, "--value-format", "registry")
    assert strict.code == 1
    assert f"{name}-0, offset 0: the value: no schema's number" in strict.error
    assert consumed(commands, name, "--value-format", "json", "--max", "1") == [{"id": 7}]


def test_without_a_registry_bytes_stay_bytes(commands: Commands, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWATER_REGISTRY")
    commands.succeed("produce", name, "\0\0\0\0\1x")
    assert commands.succeed("consume", name).lines == ["\0\0\0\0\1x"]
    for arguments in (("produce", name, "{}", "--value-format", "avro"), ("consume", name, "--key-format", "registry")):
        outcome = commands(*arguments)
        assert outcome.code == 2
        assert "HEADWATER_REGISTRY" in outcome.error


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--value-format", "binary", "--schema-id", "1"), "no meaning"),
        (("--value-format", "avro", "--message", "M"), "--value-format protobuf"),
        (("--schema-id", "1"), "no meaning"),
    ],
)
def test_wrong_usage_is_told(commands: Commands, name: str, arguments: tuple[str, ...], text: str) -> None:
    outcome = commands("produce", name, "{}", *arguments)
    assert outcome.code == 2
    assert text in outcome.error


def test_text_and_json_are_checked(commands: Commands, name: str) -> None:
    commands.succeed("produce", name, '{"a":   1}', "--value-format", "json")
    commands.succeed("produce", name, "é", "--value-format", "string")
    assert commands.succeed("consume", name, "--max", "2").lines == ['{"a":1}', "é"]
    assert commands("produce", name, "{", "--value-format", "json").code == 1
