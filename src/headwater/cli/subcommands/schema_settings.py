"""`headwater schema config` and `mode`."""

from typing import Any

import click

from headwater.cli.options import Assignment
from headwater.cli.output import format_option, show
from headwater.cli.registry_options import open_registry, registry_option
from headwater.printable import printable
from headwater.registry.compatibility import Level

MODES = ("READWRITE", "READONLY", "IMPORT")


class SettingType(Assignment):
    """NAME=VALUE, where JSON's true, false, null and objects stand for themselves."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        import orjson

        name, text = super().convert(value, param, ctx)
        try:
            return name, orjson.loads(text)
        except orjson.JSONDecodeError:
            return name, text


@click.command()
@click.argument("subject", required=False)
@click.option("--level", type=click.Choice([each.value for each in Level], case_sensitive=False), help="Set the level.")
@click.option("--set", "chosen", type=SettingType(), multiple=True, help="Another setting, such as normalize=true.")
@click.option("--reset", is_flag=True, help="Remove the subject's own settings, so that the registry's hold again.")
@format_option
@registry_option
def config(
    subject: str | None,
    level: str | None,
    chosen: tuple[tuple[str, Any], ...],
    reset: bool,
    format: str,
    registry: str | None,
) -> None:
    """Show or change the settings of SUBJECT, or of the whole registry: the compatibility level and others.

    A subject without settings of its own has those of its context, or of the registry.

    \b
    Examples:
      headwater schema config orders-value --level FULL
      headwater schema config orders-value --set normalize=true
      headwater schema config orders-value --reset
    """
    changes = {**dict(chosen), **({} if level is None else {"compatibility": level.upper()})}
    if reset and changes:
        raise click.UsageError("--reset excludes --level and --set")
    with open_registry(registry) as opened:
        if reset:
            opened.remove_config(subject)
        elif changes:
            opened.configure(subject, changes)
        settings = opened.config(subject)
    if format == "table":
        show([{"setting": name, "value": value} for name, value in settings.items()], format, ("setting", "value"))
    else:
        show([{"subject": subject, **settings}], format)


@click.command()
@click.argument("subject", required=False)
@click.argument("mode", required=False)
@click.option("--force", is_flag=True, help="Change to IMPORT although there are schemas.")
@click.option("--reset", is_flag=True, help="Remove the subject's own mode, so that the registry's holds again.")
@format_option
@registry_option
def mode(subject: str | None, mode: str | None, force: bool, reset: bool, format: str, registry: str | None) -> None:
    """Show or change the mode of SUBJECT, or of the whole registry: READWRITE, READONLY, or IMPORT, in which schemas
    are registered with ids and versions of their own.

    \b
    Examples:
      headwater schema mode
      headwater schema mode READONLY
      headwater schema mode orders-value READWRITE
    """
    if mode is None and subject is not None and subject.upper() in MODES:
        subject, mode = None, subject
    if mode is not None and mode.upper() not in MODES:
        raise click.UsageError(f"{mode!r} is no mode: {', '.join(MODES)}")
    if reset and (mode is not None or subject is None):
        raise click.UsageError("--reset needs a SUBJECT and no mode")
    with open_registry(registry) as opened:
        if reset:
            opened.remove_mode(subject or "")
        elif mode is not None:
            opened.set_mode(subject, mode.upper(), is_forced=force)
        found = opened.mode(subject)
    if format == "table":
        of = "the registry" if subject is None else f"subject '{subject}'"
        click.echo(printable(f"{of} is in mode {found}"))
    else:
        show([{"subject": subject, "mode": found}], format)
