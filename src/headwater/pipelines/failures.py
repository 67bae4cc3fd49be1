"""Turns Spark's errors into messages for people: which flow and records failed, why, and what to change."""

import re
from dataclasses import dataclass

from headwater.errors import HeadwaterError
from headwater.pipelines import ranges
from headwater.pipelines.ranges import Range

_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] ")
_PYTHON_ERROR = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Za-z_]\w*): (.+)$", re.MULTILINE)
# The error of a source without its traceback, see `headwater.spark.errors`.
_OWN_ERROR = re.compile(r"\bheadwater(?:\.\w+)+\.([A-Z]\w*: .+)")
# The error of a failed query contains its name, the offsets that it had committed, and the end of the failed batch.
_QUERY = re.compile(r"^Identifier: (?P<name>\S+) \[id = ", re.MULTILINE)
_COMMITTED = re.compile(r"^Current Committed Offsets: \{(.*)\}$", re.MULTILINE)
_AVAILABLE = re.compile(r"^Current Available Offsets: \{(.*)\}$", re.MULTILINE)
_TOPICS = re.compile(r'\{"[^"{}]+":\s*\{[^{}]*\}(?:,\s*"[^"{}]+":\s*\{[^{}]*\})*\}')
_WRAPPING = re.compile(r"^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_REASON_LENGTH_MAX = 1000

# The most frequent errors and their remedies. The connector's own errors already name theirs.
_ADVICE = (
    ("Connection refused", "start the broker, or name the right one with --bootstrap"),
    ("no broker of", "start the broker, or name the right one with --bootstrap"),
    ("TABLE_OR_VIEW_NOT_FOUND", "correct the name, or define the table or view in the project"),
    ("UNRESOLVED_COLUMN", "correct the column's name in the definition"),
    ("DATA_SOURCE_NOT_FOUND", "install it where Spark runs: pip install 'headwater[spark]' on every machine"),
    ("No module named", "install it where Spark's Python runs, on every machine of the cluster"),
    ("STREAMING_STATEFUL_OPERATOR", "remove the flow's checkpoint, or run once with --full-refresh and its table"),
    ("state schema", "remove the flow's checkpoint, or run once with --full-refresh and its table"),
    (
        "OutOfMemoryError",
        "give Spark more memory, --conf spark.driver.memory=4g, or the source maxOffsetsPerTrigger",
    ),
)


class RunFailed(HeadwaterError):
    """The message says which flow, which records, and what to change."""


@dataclass(frozen=True, slots=True)
class FailureReport:
    flow: str | None
    reason: str
    advice: str | None = None
    ranges: tuple[Range, ...] = ()

    def __str__(self) -> str:
        return self.text if self.flow is None else f"flow {self.flow}: {self.text}"

    @property
    def text(self) -> str:
        """The report without the flow's name, for displays that show the name separately."""
        parts = [self.reason]
        if self.ranges:
            parts.append(f"in a batch of {', '.join(map(str, self.ranges))}")
        if self.advice:
            parts.append(self.advice)
        return "; ".join(parts)


def explain(error: BaseException | str) -> FailureReport:
    text = str(error) or type(error).__name__
    query = _QUERY.search(text)
    return FailureReport(
        flow=short_name(query["name"]) if query else None,
        reason=reason_in(text),
        advice=next((advice for symptom, advice in _ADVICE if symptom in text), None),
        ranges=_ranges_in(text),
    )


def reason_in(text: str) -> str:
    """The one relevant line of Spark's error: the last line of a Python traceback, else the innermost condition."""
    _, traceback, python = text.partition("Traceback (most recent call last):")
    if traceback:
        found = _PYTHON_ERROR.findall(python.partition("=== Streaming Query ===")[0])
        if found:
            name, message = found[-1]
            return f"{name}: {message}"[:_REASON_LENGTH_MAX]
    own = _OWN_ERROR.search(text)
    if own is not None:
        return own[1][:_REASON_LENGTH_MAX]
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason is given")
    # Spark wraps the original error: the innermost condition is the cause.
    first = _WRAPPING.sub("", first)
    conditions = list(_CONDITION.finditer(first))
    if conditions:
        first = first[conditions[-1].start() :]
    return first.partition(" SQLSTATE:")[0][:_REASON_LENGTH_MAX]


def _ranges_in(text: str) -> tuple[Range, ...]:
    available = _AVAILABLE.search(text)
    return ranges.between(_topics_in(_COMMITTED.search(text)), _topics_in(available)) if available else ()


def _topics_in(offsets: re.Match[str] | None) -> ranges.TopicOffsets:
    """The offsets of all sources: Spark's text lists them one after the other, each behind its description."""
    found = _TOPICS.findall(offsets[1]) if offsets else []
    return {topic: partitions for each in found for topic, partitions in ranges.parse(each).items()}


def short_name(flow: str) -> str:
    """The flow's name without the default catalog and database."""
    return flow.replace("`", "").removeprefix("spark_catalog.").removeprefix("default.")
