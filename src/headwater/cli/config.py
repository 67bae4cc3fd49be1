"""`headwater config`: the effective settings with their sources, or the reference of all settings."""

import os
from pathlib import Path

import click

from headwater.cli.output import format_option, show

# In place of passwords and keys.
HIDDEN = "[hidden]"


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="The file to read.")
@click.option("--reference", is_flag=True, help="Print the reference of all settings as Markdown instead.")
@format_option
def config(file: Path | None, reference: bool, format: str) -> None:
    """Print the effective settings of a broker and their sources.

    Settings come from HEADWATER_... variables, over --config FILE (or the file that HEADWATER_CONFIG names, or
    ./headwater.toml), over defaults.
    """
    if reference:
        from headwater.cli.subcommands.reference import reference as render

        click.echo(render(), nl=False)
        return
    from headwater.config.broker import describe
    from headwater.config.loader import find_file, load

    effective = load({}, os.environ, find_file(file, os.environ))
    rows = [
        {
            "setting": entry.name,
            "value": HIDDEN if entry.sensitive and not entry.default else entry.value,
            "source": effective.sources[entry.name],
        }
        for entry in describe(effective.config)
    ]
    show(rows, format)
