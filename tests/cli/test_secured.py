"""Commands at brokers that want TLS, certificates, passwords or tokens."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from headwater.cli.main import COMMANDS, headwater
from headwater.clock import SystemClock
from headwater.testing import Broker, BrokerSecurity
from tests.support.cli.commands import Commands, Outcome, Terminal
from tests.support.security.tokens import Issuer, claims

USERS = {"ann": "planted secret"}
KINDS = [
    BrokerSecurity("SSL", users=USERS),
    BrokerSecurity("SSL", users=USERS, client_certificates=True),
    BrokerSecurity("SASL_PLAINTEXT", "SCRAM-SHA-256", USERS),
    BrokerSecurity("SASL_SSL", "SCRAM-SHA-512", USERS),
    BrokerSecurity("SASL_SSL", "PLAIN", USERS, client_certificates=True),
]
# These start no client of a broker, or ask for its address alone.
WITHOUT_CLIENT = {"serve", "spark", "log", "tls", "config", "completion"}


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(security=BrokerSecurity("SASL_SSL", users=USERS, authorizer=True)) as broker:
        yield broker


def write(file: Path, settings: Mapping[str, str]) -> str:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)


def with_options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]


@pytest.mark.parametrize("security", KINDS, ids=lambda kind: f"{kind.protocol}-{kind.client_certificates}")
def test_commands_speak_what_the_broker_speaks(security: BrokerSecurity, tmp_path: Path) -> None:
    with Broker(security=security) as broker:
        settings = broker.client_settings()
        secrets = {name: settings.pop(name) for name in ("sasl.password",) if name in settings}
        file = write(tmp_path / "client.properties", {**settings, **secrets})
        # The address comes from the file.
        commands = Commands("")
        commands.succeed("topic", "create", "orders", "--client-config", file)
        commands.succeed("produce", "orders", "--quiet", "--command-config", file, typed=b"tea\n")
        # Options win over the file.
        rest = write(tmp_path / "rest.properties", {**secrets, "security.protocol": "PLAINTEXT"})
        consumed = commands.succeed(
            *("consume", "orders", "--from", "beginning", "--max", "1", "--client-config", rest),
            *with_options(settings),
        )
        assert consumed.lines == ["tea"]


def test_commands_show_tokens_of_an_issuer(tmp_path: Path) -> None:
    issuer = Issuer()
    (tmp_path / "keys.json").write_bytes(issuer.jwks())
    (tmp_path / "token").write_text(issuer.token(claims(SystemClock().now_ms() // 1000)))
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri(),
    }
    with Broker(settings) as broker:
        Commands(broker.bootstrap_servers).succeed("topic", "create", "orders", *with_options(client))


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from leaves(child, (*path, name))


def test_every_command_that_asks_a_broker_or_a_registry_takes_the_settings_of_a_client() -> None:
    asking = [
        " ".join(path)
        for path, command in leaves(headwater)
        if any(option.name in {"bootstrap", "registry"} for option in command.params)
    ]
    complete = [
        " ".join(path)
        for path, command in leaves(headwater)
        if {"client_config", "client_set"} <= {option.name for option in command.params}
    ]
    assert asking == complete
    assert {name.split()[0] for name in asking} == COMMANDS.keys() - WITHOUT_CLIENT


def run_all(commands: Commands) -> Iterator[tuple[str, Outcome]]:
    for arguments in (
        "topic create orders --partitions 1",
        "topic list",
        "topic describe orders",
        "topic alter orders --set retention.ms=1000",
        "topic add-partitions orders --total 2",
        "group list",
        "transaction list",
        "transaction find-hanging",
        "user list",
        "acl list",
        "acl test --user ben --operation read --topic orders",
        "role list",
        "metrics headwater_requests",
        "audit query",
        "topic delete orders --yes",
    ):
        yield arguments, commands(*arguments.split())


def test_each_command_works_at_a_secured_broker(
    secured: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", write(tmp_path / "c.properties", secured.client_settings()))
    for arguments, outcome in run_all(Commands(secured.bootstrap_servers)):
        denied = arguments.startswith("acl test")
        assert outcome.code == (1 if denied else 0), (arguments, outcome.error)


def test_each_command_says_in_one_line_that_it_is_not_let_in(
    secured: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {**secured.client_settings(), "sasl.password": "planted and wrong"}
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", write(tmp_path / "c.properties", wrong))
    for arguments, outcome in run_all(Commands(secured.bootstrap_servers)):
        assert outcome.code == 1, arguments
        assert outcome.error.startswith("error: "), outcome.error
        assert outcome.error.count("\n") == 1
        assert "user 'ann'" in outcome.error
        assert "planted" not in outcome.error


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.key"),
        *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
    ],
)
def test_a_secret_is_not_taken_from_the_command_line(commands: Commands, name: str) -> None:
    outcome = commands("topic", "list", "-X", f"{name}=planted")

    assert outcome.code == 2
    assert f"{name} is a secret, which every user of this machine could read" in outcome.error
    assert "planted" not in outcome.error


def test_a_person_who_gives_a_name_is_asked_for_the_password(secured: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = secured.client_settings()
    del settings["sasl.password"]
    # Click reads hidden input from /dev/tty, which no test has: the seam below it.
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: "planted secret")
    commands = Commands(secured.bootstrap_servers)
    with Terminal() as terminal:
        assert commands("topic", "list", *with_options(settings), stdin=terminal.side).code == 0
    refused = commands("topic", "list", *with_options(settings))
    assert "sasl.password is missing" in refused.error


def test_an_error_in_an_option_names_no_file(commands: Commands) -> None:
    outcome = commands("topic", "list", "-X", "sasl.mechanisn=PLAIN")
    assert "error: the setting 'sasl.mechanisn' is not known to this client; did you mean" in outcome.error


def test_a_broker_that_anyone_could_use_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    outcome = Commands("")(
        *("serve", "--data-dir", str(tmp_path), "--kafka", "0.0.0.0:9092"),
        *("--set", "advertised.listeners=broker.example:9092"),
    )

    assert outcome.code == 1
    assert outcome.error == (
        "error: listeners: PLAINTEXT listens on 0.0.0.0:9092, which other machines can reach, and its clients need not "
        "authenticate (PLAINTEXT): have them authenticate (SASL_SSL, or SSL with ssl.client.auth=required), or set "
        "headwater.insecure.listeners.allow=true\n"
    )
    assert list(tmp_path.iterdir()) == []
