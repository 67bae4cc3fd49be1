"""Topics as tables for SQL: each topic that a statement names becomes the view `headwater.TOPIC`.

Spark keeps its global temporary views in a separate database whose name is a setting: hence the two-part names. The
views show keys and values as text: unchanged if they are UTF-8, else as hexadecimal digits after `0x`.
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
SETTINGS: Mapping[str, str] = {
    # A static setting: it must be set before the session starts.
    "spark.sql.globalTempDatabase": DATABASE,
    # A query of a few seconds ends before Java's second compiler (C2) would pay off.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.adaptive.enabled": "false",
}
_MISSING = re.compile(rf"`{DATABASE}`\.`([^`]+)`")


class StatementError(HeadwaterError):
    """The message says what in the statement to change."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    columns: tuple[str, ...]
    rows: "tuple[Row, ...]"
    # Whether the query found more rows than the caller asked for.
    is_cut: bool


def named_topics(statement: str, topics: Iterable[str]) -> list[str]:
    """The topics that the statement may query.

    A false match, such as a name inside a string literal, only costs an unused view.
    """
    names = _names_in(statement)
    # Topic names are case-sensitive, Spark's are not. An exact match wins over topics that differ in case only.
    found = [topic for topic in topics if topic in names]
    folded = {topic.casefold() for topic in found}
    wanted = {name.casefold() for name in names} - folded
    return sorted([*found, *(topic for topic in topics if topic.casefold() in wanted)])


def query(
    spark: "SparkSession", statement: str, client: Mapping[str, str], topics: Sequence[str], *, rows_max: int
) -> QueryResult:
    """`client` contains the settings of a Kafka client: the addresses of the brokers and the security."""
    try:
        for topic in named_topics(statement, topics):
            _add_view(spark, topic, client)
        answer = spark.sql(statement)
        rows = answer.limit(rows_max + 1).collect()
    except ParseException as error:
        reason = _first_lines(str(error))
        raise StatementError(f"the statement is no SQL that Spark understands: {reason}") from error
    except AnalysisException as error:
        raise StatementError(_explained(error, statement, topics)) from error
    except PySparkException as error:
        raise StatementError(f"the query failed: {reason_in(str(error))}") from error
    return QueryResult(tuple(answer.columns), tuple(rows[:rows_max]), len(rows) > rows_max)


def _add_view(spark: "SparkSession", topic: str, client: Mapping[str, str]) -> None:
    records = (
        spark.read.format("headwater")
        .options(**{f"kafka.{name}": value for name, value in client.items()})
        .option("subscribe", topic)
        .option("includeHeaders", "true")
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
    # If no such view exists, Spark takes the database for a file format and the topic for a file's path.
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
