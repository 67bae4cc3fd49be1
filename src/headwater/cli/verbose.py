"""The option --verbose: where an error comes from, behind the sentence that every command shows."""

import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from headwater.errors import HeadwaterError

Result = TypeVar("Result")


def verbose_option(command: Callable[..., Result]) -> Callable[..., Result]:
    """Adds --verbose to a command whose errors come from Spark."""

    @click.option("--verbose", is_flag=True, help="After an error, show the stacks of Python and Java, too.")
    @wraps(command)
    def wrapped(*arguments: Any, verbose: bool, **options: Any) -> Result:
        try:
            return command(*arguments, **options)
        except HeadwaterError as error:
            if not verbose:
                raise
            click.echo(f"error: {error}", err=True)
            click.echo(_origin(error.__cause__ or error), err=True)
            raise click.exceptions.Exit(1) from None

    return wrapped


def _origin(error: BaseException) -> str:
    stack = "".join(traceback.format_exception(error))
    # pyspark keeps Java's stack out of its errors' text.
    java = getattr(error, "_stackTrace", None)
    return f"{stack}\n{java}" if java else stack
