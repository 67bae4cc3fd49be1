"""--client-config: the settings of a properties file reach the connection of every command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.commands import Commands
from tests.support.client.certificates import Authority
from tests.support.client.tls_relay import TlsRelay, secured


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def relay(authority: Authority) -> Iterator[TlsRelay]:
    with secured(TlsRelay(authority.issue("server"))) as running:
        yield running


def properties(directory: Path, *lines: str) -> str:
    file = directory / "client.properties"
    file.write_text("\n".join(lines))
    return str(file)


def test_a_command_speaks_tls_if_the_file_asks_for_it(relay: TlsRelay, authority: Authority, tmp_path: Path) -> None:
    trust = f"ssl.ca.location={authority.certificate}"
    file = properties(tmp_path, "# ours", "security.protocol=SSL", trust, "fetch.max.bytes=1000")
    commands = Commands(str(relay.endpoint))

    commands.succeed("topic", "create", "orders", "--client-config", file)
    assert "orders" in commands.succeed("topic", "list", "--client-config", file).output.decode()
    refused = commands("topic", "list")
    assert refused.code == 1


def test_the_file_names_the_broker_unless_the_bootstrap_option_does(
    relay: TlsRelay, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust = f"ssl.ca.location={authority.certificate}"
    file = properties(tmp_path, f"bootstrap.servers={relay.endpoint}", "security.protocol=SSL", trust)
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", file)

    Commands("").succeed("topic", "list")
    assert "127.0.0.1:1" in Commands("127.0.0.1:1")("topic", "list").error


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("ssl.ca.location=ca.pem", "ssl.ca.location has no use with security.protocol=PLAINTEXT"),
        ("sasl.mechanisn=PLAIN", "did you mean 'sasl.mechanism'"),
    ],
)
def test_an_error_in_the_file_is_one_line_that_names_the_file(
    commands: Commands, tmp_path: Path, line: str, complaint: str
) -> None:
    outcome = commands("topic", "list", "--client-config", properties(tmp_path, line))

    assert outcome.code == 1
    assert outcome.error.startswith("error: ")
    assert "client.properties: " in outcome.error
    assert complaint in outcome.error
    assert outcome.error.count("\n") == 1


def test_a_file_that_is_missing_is_named(commands: Commands) -> None:
    assert "none.properties: No such file" in commands("topic", "list", "--client-config", "none.properties").error
