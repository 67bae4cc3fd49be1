"""The `headwater` command. Subcommands are imported when they run, so that help costs no more than click itself.

Exit codes: 0 done, 1 refused or failed (one line on standard error says why), 2 wrong usage, 130 interrupted.
"""

import sys
from collections.abc import Sequence
from typing import cast

import click

from headwater.cli.lazy_group import LazyCommand, LazyGroup
from headwater.errors import HeadwaterError

# The command NAME is the attribute NAME of the module headwater.cli.NAME.
COMMANDS = {
    "serve": "Run a broker in the foreground.",
    "topic": "Create, list, describe, alter and delete topics.",
    "produce": "Write records to a topic.",
    "consume": "Read records from topics, alone or in a group.",
    "queue": "Work with topics as queues: dead letters.",
    "schema": "Register, check, compare and delete schemas, and change a registry's settings.",
    "schedule": "List, cancel, move and deliver records that are scheduled.",
    "group": "List, describe, reset and delete consumer groups.",
    "transaction": "List and describe transactions, find and abort those that hang.",
    "user": "Add, list and delete users, and change their passwords.",
    "token": "Create, list, renew and end delegation tokens.",
    "acl": "Add, list, remove and test rules about who may do what.",
    "role": "Create, delete, grant, revoke and list roles.",
    "pipeline": "Write, check, run and stop Spark pipelines between topics.",
    "sql": "Query topics with SQL.",
    "spark": "Prepare Spark clusters for topics.",
    "metrics": "Print what a running broker measures of itself.",
    "audit": "Find out who did what.",
    "log": "Look into the files of a data directory.",
    "tls": "Make certificates for trying things out, and show certificates.",
    "config": "Print the effective settings of a broker and their sources.",
    "completion": "Print the completion script of a shell.",
}


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"headwater {version('headwater')}")
    except PackageNotFoundError:
        click.echo("headwater, run from its source tree")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    lazy_commands={name: LazyCommand(f"headwater.cli.{name}", text) for name, text in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
def headwater() -> None:
    """A streaming platform that speaks the Apache Kafka wire protocol."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        outcome = cast("object", headwater.main(arguments, prog_name="headwater", standalone_mode=False))
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()}", err=True)
        return error.exit_code
    except BrokenPipeError:
        from headwater.cli.pipe import discard_output

        discard_output()
        return 1
    except (HeadwaterError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        return 1
    # A command returns None or its exit code. Click returns the code of ctx.exit() in the same way.
    return outcome if isinstance(outcome, int) else 0


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
