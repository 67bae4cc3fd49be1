"""`headwater sql`: topics queried with Spark's SQL, every topic a table."""

import csv
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import click

from headwater.cli.options import Assignment, bootstrap_option, client_settings, connect
from headwater.cli.output import FORMATS, show
from headwater.cli.verbose import verbose_option

if TYPE_CHECKING:
    from headwater.pipelines.topic_tables import QueryResult

_LIMIT = 1000


@click.command()
@click.argument("statement")
@click.option(
    "--format",
    type=click.Choice((*FORMATS, "csv")),
    default="table",
    show_default=True,
    help="How to show the result.",
)
@click.option(
    "--limit", type=click.IntRange(min=1, max=10_000_000), default=_LIMIT, show_default=True, help="Rows at most."
)
@click.option("--master", metavar="URL", envvar="SPARK_MASTER", help="A Spark cluster; by default this machine alone.")
@click.option("--conf", "settings", type=Assignment(), multiple=True, help="A setting of Spark; may be repeated.")
@bootstrap_option
@verbose_option
def sql(
    statement: str,
    format: str,
    limit: int,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    bootstrap: str,
) -> None:
    """Query topics with Spark's SQL.

    Every topic is a table, headwater.TOPIC; one whose name is no plain word goes in back-ticks, headwater.`my-orders`.
    Its columns are key, value, topic, partition, offset, timestamp, timestampType and headers. Keys and values are text
    if they are UTF-8, else hexadecimal digits after 0x. What a JSON value holds is parse_json(value):field::type.

    Conditions on partition, offset and timestamp are answered by the broker: a range of time reads that range only.

    \b
    Examples:
      headwater sql "SELECT count(*) FROM headwater.orders"
      headwater sql "SELECT key, value FROM headwater.orders WHERE timestamp > now() - INTERVAL 5 MINUTES"
      headwater sql "SELECT parse_json(value):product::string AS product, count(*) AS orders
                     FROM headwater.orders GROUP BY 1 ORDER BY 2 DESC"
    """
    # Before Spark starts, so that a wrong address fails at once.
    with connect(bootstrap) as cluster:
        topics = [topic.name for topic in cluster.topics()]
    from headwater.pipelines import topic_tables
    from headwater.pipelines.project import RunFiles
    from headwater.pipelines.sessions import SparkTarget, ordinary_session

    with TemporaryDirectory(prefix="headwater-sql-") as directory:
        # An explicit master, so that Spark ignores SPARK_REMOTE: a running Connect server would not take these
        # settings.
        target = SparkTarget(master or "local[*]", config={**topic_tables.SETTINGS, **dict(settings)})
        with ordinary_session("headwater sql", target, RunFiles(Path(directory)), keeps_tables=False) as spark:
            result = topic_tables.query(spark, statement, client_settings(bootstrap), topics, rows_max=limit)
    _show(result, format)
    if result.is_cut:
        click.echo(f"there are more than {limit} rows: --limit shows more of them", err=True)


def _show(result: "QueryResult", format: str) -> None:
    if format == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(result.columns)
        writer.writerows(list(map(_cell, row)) for row in result.rows)
        return
    # In SQL two columns may have the same name, but not in a JSON object.
    columns = result.columns
    names = [name if columns.index(name) == at else f"{name}_{at + 1}" for at, name in enumerate(columns)]
    show([dict(zip(names, map(_cell, row), strict=True)) for row in result.rows], format, names)


def _cell(value: Any) -> Any:
    """Convert a value of Spark's to types that every format can show."""
    match value:
        case datetime():
            return value.isoformat(sep=" ", timespec="milliseconds")
        case bytearray():
            return bytes(value)
        case Mapping():
            return {str(key): _cell(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        case tuple():
            # A struct (Row): the only kind of tuple in Spark's results.
            return {name: _cell(item) for name, item in cast("Any", value).asDict().items()}
        case list():
            return [_cell(item) for item in cast("list[Any]", value)]
        case None | str() | bool() | int() | float() | bytes():
            return value
        case _:
            return str(value)
