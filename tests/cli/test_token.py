"""`headwater token`: delegation tokens are created, used, listed, renewed and ended."""

import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from headwater.client.cluster import Cluster
from headwater.client.errors import Refused
from headwater.client.security.security import read_security
from headwater.client.tokens import TokenAdmin
from headwater.testing import Broker, BrokerSecurity
from tests.support.cli.commands import Commands

SECURITY = BrokerSecurity("SASL_SSL", users={"ann": "secret of ann", "ben": "secret of ben"})


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"delegation.token.secret.key": "secret of tokens"}, security=SECURITY) as running:
        yield running


@pytest.fixture
def commands(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", client_config(broker, tmp_path, "ann"))
    return Commands(broker.bootstrap_servers)


@pytest.fixture(autouse=True)
def tokens(broker: Broker) -> Iterator[TokenAdmin]:
    with Cluster(broker.bootstrap_servers, security=read_security(broker.client_settings())) as cluster:
        admin = TokenAdmin(cluster)
        yield admin
        for token in admin.describe():
            admin.expire(token.hmac)


def client_config(broker: Broker, directory: Path, user: str) -> str:
    file = directory / f"{user}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in broker.client_settings(user).items()))
    return str(file)


def ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000


def test_a_token_is_used_instead_of_a_password(commands: Commands, tmp_path: Path, tokens: TokenAdmin) -> None:
    file = tmp_path / "job.properties"
    shown = commands.succeed("token", "create", "--properties", str(file), "--format", "json")

    (token,) = tokens.describe()
    assert [row["token_id"] for row in shown.rows] == [token.id]
    assert token.password not in shown.output.decode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    commands.succeed("topic", "create", "by-token", "--client-config", str(file))
    # As in Kafka: no token from a token.
    refused = commands("token", "create", "--client-config", str(file))
    assert refused.code == 1
    assert "you have to authenticate first, and not with such a token" in refused.error

    commands.succeed("token", "expire", token.id)
    outcome = commands("topic", "list", "--client-config", str(file))
    assert (outcome.code, "SASL_AUTHENTICATION_FAILED" in outcome.error) == (1, True)


def test_the_hmac_is_shown_where_no_file_is_written(commands: Commands, tokens: TokenAdmin) -> None:
    (row,) = commands.succeed("token", "create", "--renewer", "ben", "--format", "json").rows

    (token,) = tokens.describe()
    assert row["hmac"] == token.password
    assert (row["owner"], row["renewers"]) == ("User:ann", ["User:ben"])
    listed = commands.succeed("token", "list")
    assert token.id in listed.lines[1]
    assert token.password not in listed.output.decode()


def test_a_token_is_renewed_by_its_renewer_and_no_further_than_its_longest_life(
    commands: Commands, broker: Broker, tmp_path: Path, tokens: TokenAdmin
) -> None:
    commands.succeed("token", "create", "--renewer", "ben", "--max-lifetime", "2h")
    (token,) = tokens.describe()
    ben = client_config(broker, tmp_path, "ben")

    (row,) = commands.succeed(
        "token", "renew", token.id, "--for", "1h", "--client-config", ben, "--format", "json"
    ).rows
    assert token.issued_ms < ms(row["expires"]) < token.max_ms
    (row,) = commands.succeed("token", "renew", token.id, "--format", "json").rows
    assert ms(row["expires"]) == token.max_ms
    (row,) = commands.succeed("token", "expire", token.id, "--after", "1m", "--format", "json").rows
    assert ms(row["expires"]) < token.max_ms


def test_tokens_of_others_are_neither_seen_nor_ended(
    commands: Commands, broker: Broker, tmp_path: Path, tokens: TokenAdmin
) -> None:
    commands.succeed("token", "create")
    (token,) = tokens.describe()
    ben = client_config(broker, tmp_path, "ben")

    assert commands.succeed("token", "list", "--client-config", ben, "--format", "json").rows == []
    refused = commands("token", "expire", token.id, "--client-config", ben)
    assert (refused.code, f"there is no delegation token '{token.id}'" in refused.error) == (1, True)
    assert commands.succeed("token", "list", "--owner", "ben", "--format", "json").rows == []
    assert len(commands.succeed("token", "list", "--owner", "ann", "--format", "json").rows) == 1


def test_a_file_is_never_overwritten(commands: Commands, tmp_path: Path, tokens: TokenAdmin) -> None:
    file = tmp_path / "job.properties"
    file.write_text("mine")

    refused = commands("token", "create", "--properties", str(file))

    assert "exists already and is not overwritten (--properties)" in refused.error
    assert tokens.describe() == []


def test_a_broker_without_tokens_says_what_to_set() -> None:
    with Broker(security="SASL_PLAINTEXT") as broker:
        settings = read_security(broker.client_settings())
        with (
            Cluster(broker.bootstrap_servers, security=settings) as cluster,
            pytest.raises(Refused, match=r"no delegation tokens \(delegation.token.secret.key\)"),
        ):
            TokenAdmin(cluster).create()


def test_a_token_shows_its_secret_to_nobody(tokens: TokenAdmin) -> None:
    token = tokens.create()

    assert token.password not in repr(token)
    assert repr(token.hmac) not in repr(token)
