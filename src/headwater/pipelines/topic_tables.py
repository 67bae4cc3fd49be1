"""Topics as tables for SQL: each topic that a statement names is the view `headwater.TOPIC`.

Spark keeps views that all sessions share in a database of their own, and lets its name be chosen: that makes the
two-part names. Keys and values are text there: as they are if they are UTF-8, else hexadecimal digits after `0x`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql.functions import coalesce, col, concat, expr, hex, lit  # noqa: A004

from headwater.config.declaration import nearest
from headwater.errors import HeadwaterError
from headwater.pipelines.failures import reason_in

if TYPE_CHECKING:
    from pyspark.sql import Column, Row, SparkSession

DATABASE = "headwater"
# Kept by the session as long as it lives; it has to be set before it starts.
SETTINGS: Mapping[str, str] = {
    "spark.sql.globalTempDatabase": DATABASE,
    # A query that lasts seconds is over before the second compiler pays.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.adaptive.enabled": "false",
}
_MISSING = re.compile(rf"`{DATABASE}`\.`([^`]+)`")


class StatementError(HeadwaterError):
    """The message says what in the statement to change."""


@dataclass(frozen=True, slots=True)
class Result:
    columns: tuple[str, ...]
    rows: "tuple[Row, ...]"
    # Whether there were more rows than were asked for.
    is_cut: bool


def named_topics(statement: str, topics: Iterable[str]) -> list[str]:
    """Those that the statement may be about: naming one by chance, as in a text, costs a moment and does no harm."""
    names = _names_in(statement)
    # Spark's names have no case, but topics have: two that differ by it alone are told apart by what is written.
    found = [topic for topic in topics if topic in names]
    folded = {topic.casefold() for topic in found}
    wanted = {name.casefold() for name in names} - folded
    return sorted([*found, *(topic for topic in topics if topic.casefold() in wanted)])


def query(
    spark: "SparkSession", statement: str, client: Mapping[str, str], topics: Sequence[str], *, rows_max: int
) -> Result:
    """`client` has the settings of a Kafka client: where the brokers are, and how to talk to them."""
    for topic in named_topics(statement, topics):
        _add_view(spark, topic, client)
    try:
        answer = spark.sql(statement)
        rows = answer.limit(rows_max + 1).collect()
    except ParseException as error:
        raise StatementError(f"the statement is no SQL that Spark understands: {_first_lines(str(error))}") from None
    except AnalysisException as error:
        raise StatementError(_explained(error, statement, topics)) from None
    except PySparkException as error:
        raise StatementError(f"the query failed: {reason_in(str(error))}") from None
    return Result(tuple(answer.columns), tuple(rows[:rows_max]), len(rows) > rows_max)


def _add_view(spark: "SparkSession", topic: str, client: Mapping[str, str]) -> None:
    records = (
        spark.read.format("headwater")
        .options(**{f"kafka.{name}": value for name, value in client.items()})
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("pushFilters", "true")
        .load()
    )
    columns = [_as_text(name) if name in {"key", "value"} else col(name) for name in records.columns]
    records.select(*columns).createOrReplaceGlobalTempView(f"`{topic}`")


def _as_text(name: str) -> "Column":
    text = expr(f"try_validate_utf8(CAST({name} AS STRING))")
    return coalesce(text, concat(lit("0x"), hex(col(name)))).alias(name)


def _explained(error: AnalysisException, statement: str, topics: Sequence[str]) -> str:
    reason = reason_in(str(error))
    missing = _MISSING.search(reason)
    if missing is not None:
        return _unknown(missing[1], topics)
    # What is no view may be a file that is read as this format, thinks Spark.
    if "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY" in reason:
        for name in sorted(_names_in(statement)):
            if not named_topics(f"{DATABASE}.`{name}`", topics):
                return _unknown(name, topics)
    if "TABLE_OR_VIEW_NOT_FOUND" in reason:
        return f"{reason} Topics are tables of the database {DATABASE}: {DATABASE}.orders for the topic orders."
    return reason


def _unknown(name: str, topics: Sequence[str]) -> str:
    meant = nearest(name, topics)
    return f"there is no topic {name!r}{f'; did you mean {meant!r}?' if meant else ''}"


def _names_in(statement: str) -> set[str]:
    return {
        quoted.replace("``", "`") or plain
        for quoted, plain in re.findall(rf"(?i)\b{DATABASE}`?\s*\.\s*(?:`((?:[^`]|``)+)`|(\w+))", statement)
    }


def _first_lines(text: str) -> str:
    return " ".join(line.strip() for line in text.partition("== SQL")[0].splitlines() if line.strip()).strip()
