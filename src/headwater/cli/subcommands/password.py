"""How commands are told a password: typed twice, from standard input or from a file. Never as an argument, which every
user of the machine could read in the list of processes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from headwater.password_file import PASSWORD_BYTES_MAX, decode_password, read_password

_STDIN = Path("-")

Command = TypeVar("Command", bound=Callable[..., object])


def password_option(command: Command) -> Command:
    """Adds --password-file, which reaches the command as `password_file`."""
    return click.option(
        "--password-file",
        type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
        help="Read the password from this file with one line, or from standard input (-), instead of asking.",
    )(command)


def asked_password(password_file: Path | None, name: str) -> str:
    if password_file == _STDIN:
        return decode_password(sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 1), "--password-file: standard input")
    if password_file is not None:
        return read_password(password_file, "--password-file")
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal to ask for the password: --password-file FILE, or - for standard input"
        )
    typed: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt="Once more", err=True)
    return decode_password(typed.encode(errors="surrogateescape"), "the password")
