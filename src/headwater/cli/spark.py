"""`headwater spark`: what a Spark cluster needs for `format("headwater")`."""

from pathlib import Path

import click

from headwater.cli.output import format_option, show
from headwater.printable import printable


@click.group()
def spark() -> None:
    """Prepare Spark clusters for topics."""


@spark.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("headwater-spark.zip"),
    show_default=True,
    help="The archive to write.",
)
@format_option
def package(output: Path, format: str) -> None:
    """Write an archive that brings Headwater to the executors of a cluster, and show the settings that ship it.

    It has Headwater and what it needs beside Spark, for Pythons of this version on this kind of machine. A session of
    headwater.spark.session(master=...) makes and ships it by itself.

    \b
    Example:
      headwater spark package --output headwater-spark.zip
    """
    import sys

    from headwater.spark import package as packages
    from headwater.spark.python import VARIABLE

    if not output.parent.is_dir():
        raise click.ClickException(f"there is no directory {output.parent}: create it, or choose another --output")
    files = packages.write_package(output)
    settings = packages.settings(output, {})
    if format != "table":
        show([{"archive": str(output), "files": files, "bytes": output.stat().st_size, "settings": settings}], format)
        return
    megabytes = output.stat().st_size / 1e6
    click.echo(printable(f"wrote {output}: {files} files, {megabytes:.0f} MB"))
    click.echo("submit with:")
    # Not by `spark.pyspark.python`, which the Java of spark-submit does not heed for sources.
    click.echo(f"  export {VARIABLE}=python{sys.version_info.major}.{sys.version_info.minor}")
    click.echo(
        printable(f"  spark-submit {' '.join(f'--conf {name}={value}' for name, value in settings.items())} ...")
    )
