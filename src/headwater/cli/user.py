"""`headwater user`: add, list, passwd and delete users."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.cli.options import bootstrap_option, connect
from headwater.cli.output import format_option, show
from headwater.cli.subcommands.password import asked_password, password_option
from headwater.printable import printable
from headwater.security.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS

if TYPE_CHECKING:
    from headwater.cli.subcommands.user_stores import Users, UserStore

_COLUMNS = ("user", "mechanisms", "iterations")

_data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Instead of asking a broker, change the data directory of a broker that is stopped.",
)


_iterations_option = click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="How often the password is hashed: more make it harder to guess from a stolen disk.",
)


@click.group()
def user() -> None:
    """Add, list and delete users, and change their passwords.

    Users authenticate with SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN at listeners with SASL. The broker keeps salted hashes
    only. What a user may do is said by `headwater acl` and `headwater role`.

    The first user of a broker whose listeners all want to know who clients are is added while it is stopped, with
    --data-dir; or HEADWATER_ADMIN_PASSWORD_FILE names a file with the password of the user `admin`, which the broker
    creates at its first start.
    """


@user.command()
@click.argument("name")
@password_option
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(list(MECHANISMS), case_sensitive=False),
    multiple=True,
    default=tuple(MECHANISMS),
    show_default=True,
    help="For which mechanism; may be repeated. PLAIN works with either.",
)
@_iterations_option
@click.option("--admin", is_flag=True, help="Allow the user everything, by rules that `headwater acl` can remove.")
@_data_dir_option
@format_option
@bootstrap_option
def add(
    name: str,
    password_file: Path | None,
    mechanisms: tuple[str, ...],
    iterations: int,
    admin: bool,
    data_dir: Path | None,
    format: str,
    bootstrap: str,
) -> None:
    """Add the user NAME. The password is asked for, or read from --password-file.

    \b
    Examples:
      headwater user add admin --admin --data-dir headwater-data      # the first one, broker stopped
      headwater user add ann
      pass show kafka/ann | headwater user add ann --password-file -
    """
    with _store(bootstrap, data_dir, is_created=True) as store:
        # Before the password is asked for.
        if name in store.users():
            raise click.ClickException(f"user {name!r} exists already: `headwater user passwd` changes the password")
        password = asked_password(password_file, name)
        if admin:
            # First, so that a broker that enforces no rules refuses it before there is a user.
            store.make_administrator(name)
        store.set_password(name, password, mechanisms, iterations)
        _report(store.users(), name, format, f"added user {name!r}{' as an administrator' if admin else ''}", "added")


@user.command("list")
@_data_dir_option
@format_option
@bootstrap_option
def list_users(data_dir: Path | None, format: str, bootstrap: str) -> None:
    """List users, and the mechanisms by which they can authenticate.

    Users of other kinds are not listed: those of certificates, of tokens, and of the setting plain.sasl.jaas.config.
    """
    with _store(bootstrap, data_dir) as store:
        users = store.users()
    show([_row(users, name) for name in sorted(users)], format, _COLUMNS)


@user.command()
@click.argument("name")
@password_option
@_iterations_option
@_data_dir_option
@format_option
@bootstrap_option
def passwd(
    name: str, password_file: Path | None, iterations: int, data_dir: Path | None, format: str, bootstrap: str
) -> None:
    """Change the password of the user NAME, for all mechanisms that the user has. Open connections stay open.

    \b
    Examples:
      headwater user passwd ann
      headwater user passwd admin --data-dir headwater-data           # a lost one, broker stopped
    """
    from headwater.cli.subcommands.user_stores import check_known

    with _store(bootstrap, data_dir) as store:
        users = store.users()
        check_known(users, name)
        mechanisms = [each for each, _ in users[name] if each in MECHANISMS]
        store.set_password(name, asked_password(password_file, name), mechanisms, iterations)
        _report(store.users(), name, format, f"changed the password of user {name!r}", "changed")


@user.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@_data_dir_option
@format_option
@bootstrap_option
def delete(names: tuple[str, ...], yes: bool, data_dir: Path | None, format: str, bootstrap: str) -> None:
    """Delete users. Their open connections stay open, and rules about them stay, for a user of the same name.

    \b
    Examples:
      headwater user delete ann ben
      headwater acl remove --user ann                                 # the rules about ann
    """
    from headwater.cli.subcommands.user_stores import check_known

    chosen = list(dict.fromkeys(names))
    deleted: list[str] = []
    try:
        with _store(bootstrap, data_dir) as store:
            users = store.users()
            for name in chosen:
                check_known(users, name)
            if not yes and sys.stdin.isatty():
                click.confirm(f"Delete {', '.join(map(repr, chosen))}?", abort=True)
            for name in chosen:
                store.delete(name)
                deleted.append(name)
    finally:
        # Also after an error: the users before it are deleted.
        if deleted:
            show([{"user": name, "deleted": True} for name in deleted], format)


@contextmanager
def _store(bootstrap: str, data_dir: Path | None, *, is_created: bool = False) -> "Generator[UserStore]":
    from headwater.cli.subcommands.user_stores import RunningBroker, stopped_broker

    if data_dir is not None:
        with stopped_broker(data_dir, is_created=is_created) as stopped:
            yield stopped
        return
    with connect(bootstrap) as cluster:
        yield RunningBroker(cluster)


def _row(users: "Users", name: str) -> dict[str, object]:
    credentials = users.get(name, ())
    return {
        "user": name,
        "mechanisms": [mechanism for mechanism, _ in credentials],
        "iterations": [iterations for _, iterations in credentials],
    }


def _report(users: "Users", name: str, format: str, sentence: str, done: str) -> None:
    if format == "table":
        click.echo(printable(sentence))
    else:
        show([{**_row(users, name), done: True}], format)
