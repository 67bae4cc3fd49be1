"""`headwater schema`: schemas are registered, listed, shown, checked, compared and deleted; levels and modes change."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from headwater.broker_security import BrokerSecurity
from headwater.testing import Broker
from tests.support.broker.settings import NO_HOUSEKEEPING
from tests.support.cli.commands import Commands, Outcome

FILES = {
    "order.avsc": '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}',
    "with_note.avsc": '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":"string","default":""}]}',
    "other.avsc": '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}',
    "order.json": '{"type":"object","properties":{"id":{"type":"integer"}}}',
    "money.proto": 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }',
    "order.proto": 'syntax = "proto3"; import "money.proto"; message Order { shop.Money total = 1; }',
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**NO_HOUSEKEEPING, "headwater.schemas.enable": "true"}, http=True) as running:
        yield running


@pytest.fixture(autouse=True)
def registry(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_REGISTRY", broker.http_url)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    def written(name: str) -> str:
        (tmp_path / name).write_text(FILES[name])
        return str(tmp_path / name)

    return written


def test_versions_are_registered_listed_shown_and_deleted(
    commands: Commands, name: str, file: Callable[[str], str]
) -> None:
    first = commands.succeed("schema", "register", name, file("order.avsc"), "--format", "json").rows[0]
    assert first == {"subject": name, "version": 1, "id": first["id"]}
    again = commands.succeed("schema", "register", name, file("order.avsc"), "--format", "json").rows[0]
    assert again == first
    told = commands.succeed("schema", "register", name, "-", typed=FILES["with_note.avsc"].encode())
    assert told.lines[0].startswith(f"subject '{name}' has it as version 2, with id ")

    latest = commands.succeed("schema", "list", "--prefix", name, "--format", "json").rows
    assert [(each["subject"], each["version"], each["type"]) for each in latest] == [(name, 2, "avro")]
    versions = commands.succeed("schema", "list", name, "--format", "json").rows
    assert [each["version"] for each in versions] == [1, 2]

    shown = commands.succeed("schema", "show", name)
    assert json.loads(shown.output) == json.loads(FILES["with_note.avsc"])
    by_id = commands.succeed("schema", "show", "--id", str(first["id"]), "--raw", "--format", "json").rows[0]
    assert by_id["schema"] == FILES["order.avsc"]

    assert commands.succeed("schema", "delete", name, "--version", "1", "--format", "json").rows == [
        {"subject": name, "version": 1, "deleted": True}
    ]
    listed = commands.succeed("schema", "list", name, "--deleted", "--format", "json").rows
    assert [(each["version"], each["deleted"]) for each in listed] == [(1, True), (2, False)]
    commands.succeed("schema", "delete", name)
    removed = commands.succeed("schema", "delete", name, "--permanent", "--format", "json").rows
    assert [each["version"] for each in removed] == [1, 2]
    gone = commands("schema", "show", name)
    assert gone.code == 1
    assert f"Subject '{name}' not found" in gone.error


def test_the_type_is_that_of_the_file_and_references_are_resolved(
    commands: Commands, name: str, file: Callable[[str], str]
) -> None:
    commands.succeed("schema", "register", f"{name}-money", file("money.proto"))
    reference = f"money.proto={name}-money:1"
    commands.succeed("schema", "register", name, file("order.proto"), "--reference", reference)
    row = commands.succeed("schema", "show", name, "--format", "json").rows[0]
    assert (row["type"], row["references"]) == ("protobuf", [reference])
    commands.succeed("schema", "register", f"{name}-json", file("order.json"))
    assert commands.succeed("schema", "show", f"{name}-json", "--format", "json").rows[0]["type"] == "json"
    # The comparison resolves them, too.
    same = commands.succeed("schema", "diff", name, "1")
    assert same.lines == ["the texts are the same", "", "new reads old (BACKWARD): yes", "old reads new (FORWARD): yes"]


def test_check_says_by_its_exit_code_whether_a_schema_may_come_next(
    commands: Commands, name: str, file: Callable[[str], str]
) -> None:
    # Any schema may be the first.
    commands.succeed("schema", "check", name, file("other.avsc"))
    commands.succeed("schema", "register", name, file("order.avsc"))
    assert commands.succeed("schema", "check", name, file("with_note.avsc")).lines == [
        f"the schema may become the next version of subject '{name}' (BACKWARD)"
    ]
    refused = commands("schema", "check", name, file("other.avsc"))
    assert refused.code == 1
    assert refused.lines[0] == f"the schema may not become the next version of subject '{name}' (BACKWARD):"
    assert "path '/fields/0/type'" in refused.lines[1]
    assert len(refused.lines) == 2
    row = commands("schema", "check", name, file("other.avsc"), "--format", "json").rows[0]
    assert (row["compatible"], len(row["problems"])) == (False, 1)
    # Nothing was registered.
    assert len(commands.succeed("schema", "list", name, "--format", "json").rows) == 1
    invalid = commands("schema", "check", name, "-", typed=b"{")
    assert invalid.code == 1
    assert "this is not JSON" in invalid.lines[1]


def test_diff_shows_what_differs_and_who_reads_whose_records(
    commands: Commands, name: str, file: Callable[[str], str]
) -> None:
    commands.succeed("schema", "register", name, file("order.avsc"))
    required = FILES["with_note.avsc"].replace(',"default":""', "")
    outcome = commands.succeed("schema", "diff", name, "1", "-", typed=required.encode())
    assert '+      "name": "note",' in outcome.lines
    assert "new reads old (BACKWARD): no" in outcome.lines
    assert outcome.lines[-1] == "old reads new (FORWARD): yes"
    row = commands.succeed("schema", "diff", name, "latest", file("other.avsc"), "--format", "json").rows[0]
    assert (row["backward"]["compatible"], row["forward"]["compatible"]) == (False, False)
    assert commands("schema", "diff", name, "no-such-file").code == 2


def test_levels_and_modes_change(commands: Commands, name: str, file: Callable[[str], str]) -> None:
    set_level = commands.succeed("schema", "config", name, "--level", "full", "--set", "normalize=true")
    assert ["compatibilityLevel", "FULL"] in [line.split() for line in set_level.lines]
    row = commands.succeed("schema", "config", name, "--format", "json").rows[0]
    assert (row["compatibilityLevel"], row["normalize"]) == ("FULL", True)
    reset = commands.succeed("schema", "config", name, "--reset", "--format", "json").rows[0]
    assert reset["compatibilityLevel"] == "BACKWARD"

    assert commands.succeed("schema", "mode", name, "readonly").lines == [f"subject '{name}' is in mode READONLY"]
    refused = commands("schema", "register", name, file("order.avsc"))
    assert refused.code == 1
    assert "read-only mode" in refused.error
    assert commands.succeed("schema", "mode", name, "--reset").lines == [f"subject '{name}' is in mode READWRITE"]
    assert commands.succeed("schema", "mode").lines == ["the registry is in mode READWRITE"]
    assert commands("schema", "mode", name, "SIDEWAYS").code == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("show",), "either SUBJECT or --id"),
        (("show", "s", "--version", "0"), "neither a version"),
        (("config", "s", "--reset", "--level", "FULL"), "--reset excludes"),
        (("list", "--registry", "http://user:secret@127.0.0.1:1"), "basic.auth.user.info"),
        (("list", "-X", "basic.auth.user.info=ann:secret"), "is a secret"),
        (("register", "s", "-", "--reference", "common=x"), "NAME=SUBJECT:VERSION"),
    ],
)
def test_wrong_usage_is_told(commands: Commands, arguments: tuple[str, ...], text: str) -> None:
    outcome = commands("schema", *arguments)
    assert outcome.code == 2
    assert text in outcome.error
    assert "secret@" not in outcome.error


def test_an_error_names_the_address_and_how_to_change_it(commands: Commands, broker: Broker) -> None:
    nobody = commands("schema", "list", "--registry", "http://127.0.0.1:1")
    assert nobody.code == 1
    assert "http://127.0.0.1:1: Connection refused (--registry, schema.registry.url)" in nobody.error
    other = commands("schema", "list", "--registry", f"{broker.http_url}/no/such/path")
    assert other.code == 1
    assert "404" in other.error


def test_a_registry_with_tls_and_passwords(commands: Commands, tmp_path: Path) -> None:
    security = BrokerSecurity("SASL_SSL", "PLAIN", {"ann": "planted: secret"}, authorizer=False)
    with Broker({**NO_HOUSEKEEPING, "headwater.schemas.enable": "true"}, security=security, http=True) as secured:
        settings = {
            **secured.client_settings(),
            "schema.registry.url": secured.http_url,
            "schema.registry.ssl.ca.location": str(secured.ca_file),
        }

        def check(changes: Mapping[str, str | None]) -> Outcome:
            chosen = {name: value for name, value in {**settings, **changes}.items() if value is not None}
            file = tmp_path / "client.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()))
            with patch.dict(os.environ):
                del os.environ["HEADWATER_REGISTRY"]
                return commands("schema", "list", "--client-config", str(file))

        for accepted in (
            {"basic.auth.user.info": "ann:planted: secret"},
            {"schema.registry.basic.auth.user.info": "ann:planted: secret"},
            {"basic.auth.credentials.source": "SASL_INHERIT"},
        ):
            assert check(accepted).code == 0, accepted
        for changes, text in (
            ({}, "basic.auth.user.info=USER:PASSWORD"),
            ({"basic.auth.user.info": "ann:wrong"}, "basic.auth.user.info=USER:PASSWORD"),
            ({"schema.registry.ssl.ca.location": None}, "(schema.registry.ssl.ca.location)"),
            ({"schema.registry.url": secured.http_url.replace("https", "http")}, "has no use with http://"),
            ({"schema.registry.basic.auth.userinfo": "ann:x"}, "did you mean 'schema.registry.basic.auth.user.info'?"),
        ):
            refused = check(changes)
            assert refused.code == 1, changes
            assert text in refused.error
            assert "planted" not in refused.error
