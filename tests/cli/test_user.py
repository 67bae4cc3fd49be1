"""`headwater user`: users are added, listed and deleted, and passwords changed, at a broker and in a data directory."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client.access import AccessAdmin
from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import AuthenticationFailed
from headwater.client.security.security import read_security
from headwater.client.users import ScramCredentialInfo, UserAdmin
from headwater.errors import ConfigError
from headwater.testing import Broker, BrokerSecurity
from tests.support.cli.commands import Commands, Terminal

PASSWORD = b"planted secret\n"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_PLAINTEXT", users={"admin": "secret of admin"}, authorizer=True)
    with Broker(security=security) as running:
        yield running


@pytest.fixture
def commands(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    file = tmp_path / "admin.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in broker.client_settings().items()))
    monkeypatch.setenv("HEADWATER_CLIENT_CONFIG", str(file))
    return Commands(broker.bootstrap_servers)


@pytest.fixture(autouse=True)
def users(broker: Broker) -> Iterator[UserAdmin]:
    """All but the administrator are removed after each test."""
    settings = broker.client_settings()
    with Cluster(broker.bootstrap_servers, security=read_security(settings)) as cluster:
        admin = UserAdmin(cluster)
        yield admin
        for name in admin.describe_users():
            if name != "admin":
                admin.delete_user(name)


def log_in(broker: Broker, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> Cluster:
    """A client that has authenticated."""
    settings = {**broker.client_settings(), "sasl.username": name, "sasl.password": password}
    cluster = Cluster(broker.bootstrap_servers, security=read_security({**settings, "sasl.mechanism": mechanism}))
    cluster.metadata()
    return cluster


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_that_was_added_can_log_in_until_deleted(commands: Commands, broker: Broker, mechanism: str) -> None:
    added = commands.succeed("user", "add", "ann", "--password-file", "-", typed=PASSWORD)
    assert added.lines == ["added user 'ann'"]
    log_in(broker, "ann", "planted secret", mechanism).close()
    with pytest.raises(AuthenticationFailed):
        log_in(broker, "ann", "wrong", mechanism)

    assert commands.succeed("user", "delete", "ann", "--format", "json").rows == [{"user": "ann", "deleted": True}]
    with pytest.raises(AuthenticationFailed):
        log_in(broker, "ann", "planted secret", mechanism)


def test_a_password_is_changed_for_all_mechanisms_of_the_user(
    commands: Commands, broker: Broker, users: UserAdmin, tmp_path: Path
) -> None:
    users.set_password("ann", "old", mechanisms=["SCRAM-SHA-256"])
    file = tmp_path / "password"
    file.write_bytes(PASSWORD)

    changed = commands.succeed("user", "passwd", "ann", "--password-file", str(file), "--iterations", "5000")

    assert changed.lines == ["changed the password of user 'ann'"]
    assert users.describe_users(["ann"]) == {"ann": [ScramCredentialInfo("SCRAM-SHA-256", 5000)]}
    log_in(broker, "ann", "planted secret", "SCRAM-SHA-256").close()
    with pytest.raises(AuthenticationFailed):
        log_in(broker, "ann", "old", "SCRAM-SHA-256")


def test_users_are_listed_in_all_formats(commands: Commands, users: UserAdmin) -> None:
    users.set_password("ann", "x", mechanisms=["SCRAM-SHA-256"])

    assert [line.split() for line in commands.succeed("user", "list").lines] == [
        ["USER", "MECHANISMS", "ITERATIONS"],
        ["admin", "SCRAM-SHA-256,", "SCRAM-SHA-512", "4096,", "4096"],
        ["ann", "SCRAM-SHA-256", "4096"],
    ]
    ann = {"user": "ann", "mechanisms": ["SCRAM-SHA-256"], "iterations": [4096]}
    assert commands.succeed("user", "list", "--format", "json").rows[1] == ann
    assert "- user: ann" in commands.succeed("user", "list", "--format", "yaml").lines


def test_an_administrator_may_do_everything_and_another_user_nothing(commands: Commands, broker: Broker) -> None:
    commands.succeed("user", "add", "ann", "--password-file", "-", typed=PASSWORD)
    added = commands.succeed("user", "add", "root", "--admin", "--password-file", "-", typed=PASSWORD)
    assert added.lines == ["added user 'root' as an administrator"]

    with log_in(broker, "root", "planted secret") as cluster:
        Admin(cluster).create_topic("of-root")
        assert [topic.name for topic in Admin(cluster).list_topics() if not topic.is_internal] == ["of-root"]
        assert AccessAdmin(cluster).describe_acls()
    with log_in(broker, "ann", "planted secret") as cluster:
        assert Admin(cluster).list_topics() == []


@pytest.mark.parametrize(
    ("arguments", "typed", "complaint"),
    [
        (("add", "admin", "--password-file", "-"), PASSWORD, "user 'admin' exists already: `headwater user passwd`"),
        (("passwd", "nobody", "--password-file", "-"), PASSWORD, "there is no user 'nobody'"),
        (("delete", "nobody"), b"", "there is no user 'nobody'"),
        (("add", "ann"), b"", "no terminal to ask for the password: --password-file"),
        (("add", "ann", "--password-file", "-"), b"\n", "standard input has no password: one line"),
        (("add", "ann", "--password-file", "-"), b"secret\nsecret", "standard input has no password: one line"),
        (("add", "ann", "--password-file", "/nothing"), b"", "--password-file: /nothing: No such file"),
        (("add", "a\nb", "--password-file", "-"), PASSWORD, "up to 255 characters, all of them printable"),
        (("add", "ann", "--password-file", "-", "--iterations", "4095"), PASSWORD, "4096<=x<=16384"),
        (("add", "ann", "--password-file", "-", "--mechanism", "PLAIN"), PASSWORD, "'SCRAM-SHA-256', 'SCRAM-SHA-512'"),
        (("list", "--data-dir", "/nothing"), b"", "/nothing: there is no such directory (--data-dir)"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(
    commands: Commands, users: UserAdmin, arguments: tuple[str, ...], typed: bytes, complaint: str
) -> None:
    outcome = commands("user", *arguments, typed=typed)

    assert outcome.code in (1, 2)
    assert complaint in outcome.error.replace("scram-sha", "SCRAM-SHA")
    assert "secret" not in outcome.error
    assert list(users.describe_users()) == ["admin"]


def test_a_user_that_exists_is_refused_before_a_password_is_asked_for(commands: Commands) -> None:
    # There is no terminal: to ask would be another error.
    assert "exists already" in commands("user", "add", "admin").error


def test_a_person_types_the_password_twice_and_does_not_see_it(
    commands: Commands, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Click reads hidden input from /dev/tty, which no test has: the seam below it.
    typed = iter(["planted secret", "mistyped", "planted secret", "planted secret"])
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: next(typed))
    with Terminal() as terminal:
        outcome = commands("user", "add", "ann", stdin=terminal.side, stderr=terminal.side)
        shown = terminal.shown()

    assert outcome.code == 0
    assert next(typed, None) is None, "all four lines were asked for"
    assert b"planted" not in shown
    log_in(broker, "ann", "planted secret").close()


def test_a_typed_password_that_is_not_utf_8_is_refused_and_not_changed(
    commands: Commands, users: UserAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: "secret\udcff")
    with Terminal() as terminal:
        outcome = commands("user", "add", "ann", stdin=terminal.side)

    assert outcome.code == 1
    assert "the password is not UTF-8" in outcome.error
    assert list(users.describe_users()) == ["admin"]


def test_a_person_is_asked_before_users_are_deleted(commands: Commands, users: UserAdmin) -> None:
    users.set_password("ann", "x")
    with Terminal() as terminal:
        os.write(terminal.person, b"n\n")
        outcome = commands("user", "delete", "ann", stdin=terminal.side, stderr=terminal.side)

    assert outcome.code == 130
    assert "ann" in users.describe_users()


# -- a broker that is stopped


def test_the_first_user_is_added_to_a_stopped_broker(commands: Commands, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    arguments = ("--data-dir", str(directory))
    commands.succeed("user", "add", "root", "--admin", "--password-file", "-", *arguments, typed=PASSWORD)
    commands.succeed("user", "add", "ann", "--password-file", "-", *arguments, typed=b"old\n")
    commands.succeed("user", "passwd", "ann", "--password-file", "-", *arguments, typed=PASSWORD)
    commands.succeed("user", "add", "bob", "--password-file", "-", *arguments, typed=PASSWORD)
    commands.succeed("user", "delete", "bob", *arguments)
    listed = commands.succeed("user", "list", *arguments, "--format", "json").rows
    assert [row["user"] for row in listed] == ["ann", "root"]
    assert not any(b"planted" in file.read_bytes() for file in directory.rglob("*") if file.is_file())

    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "authorizer.class.name": "acl"}
    with Broker(settings, data_directory=directory) as broker:
        for name in ("root", "ann"):
            login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": name}
            security = read_security({**login, "sasl.password": "planted secret"})
            with Cluster(broker.bootstrap_servers, security=security) as cluster:
                if name == "root":
                    Admin(cluster).create_topic("orders")
                else:
                    assert Admin(cluster).list_topics() == []


def test_a_running_broker_keeps_its_data_directory_to_itself(commands: Commands, broker: Broker) -> None:
    outcome = commands("user", "add", "ann", "--password-file", "-", "--data-dir", str(broker.data_directory))

    assert outcome.code == 1
    assert "is in use by a running broker: leave out --data-dir to ask that broker, or stop it first" in outcome.error


def test_a_directory_keeps_its_node_id_whatever_the_settings_say(commands: Commands, tmp_path: Path) -> None:
    with Broker({"node.id": "7"}, data_directory=tmp_path):
        pass
    commands.succeed("user", "add", "ann", "--password-file", "-", "--data-dir", str(tmp_path), typed=PASSWORD)

    with Broker({"node.id": "7"}, data_directory=tmp_path) as broker:
        assert list(broker.node.broker.access.users.describe()) == ["ann"]


def test_what_is_done_to_a_stopped_broker_is_in_its_audit_log(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_AUDIT", "on")
    commands.succeed("user", "add", "ann", "--password-file", "-", "--data-dir", str(tmp_path), typed=PASSWORD)
    monkeypatch.delenv("HEADWATER_AUDIT")
    monkeypatch.delenv("HEADWATER_CLIENT_CONFIG")

    with Broker(data_directory=tmp_path) as broker:
        found = Commands(broker.bootstrap_servers).succeed("audit", "query", "--type", "user.", "--format", "json").rows
    (event,) = found
    assert event["user"].startswith("OS:")
    assert event["resource"] == "user 'ann'"
    assert "planted" not in json.dumps(found)


def test_passwords_are_never_empty() -> None:
    with pytest.raises(ConfigError, match="must not be empty"):
        UserAdmin(Cluster("127.0.0.1:1")).set_password("ann", "")
