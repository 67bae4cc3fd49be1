"""How each flow is doing, folded from what Spark tells: events of the run and progress of its queries."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import orjson

_EVENT = re.compile(r"Flow (?P<flow>\S+) (?:is|has) (?P<state>[A-Z_]+)\.?")
_ERROR_LENGTH_MAX = 2000


@dataclass(frozen=True, slots=True)
class Range:
    """Records of one partition that a batch was to process."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        # As people name records: the last one is part of it.
        return f"{self.topic}-{self.partition} offsets {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True)
class Flow:
    """Speeds are those of the last batch; None stands for what its source or sink does not tell."""

    name: str
    state: str = "queued"
    batch_id: int | None = None
    batch_duration_ms: int | None = None
    rows_in: int = 0
    rows_in_per_second: float | None = None
    rows_out: int | None = None
    rows_out_per_second: float | None = None
    # Records that wait in the topics it reads.
    lag: int | None = None
    updated: str | None = None
    error: str | None = None

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


class Flows:
    """All flows of a pipeline, in the order in which they were first heard of."""

    def __init__(self) -> None:
        self._flows: dict[str, Flow] = {}

    def __iter__(self) -> Any:
        return iter(list(self._flows.values()))

    def rows(self) -> tuple[dict[str, Any], ...]:
        return tuple(flow.as_row() for flow in self)

    def get(self, name: str) -> Flow:
        return self._flows.get(name) or Flow(name)

    def heard(self, message: str) -> Flow | None:
        """An event of a pipeline's run, such as `Flow spark_catalog.default.orders is RUNNING.`"""
        found = _EVENT.search(message)
        if found is None:
            return None
        flow = self.get(short_name(found["flow"]))
        state = found["state"].lower()
        # Trouble is over once a flow has come through.
        return self._keep(replace(flow, state=state, error=None if state == "completed" else flow.error))

    def progressed(self, told: Mapping[str, Any]) -> Flow:
        """The progress of a streaming query, as Spark writes it in JSON."""
        flow = self.get(short_name(told.get("name") or told["id"]))
        rows_in = int(told.get("numInputRows") or 0)
        duration_ms = int(told.get("batchDuration") or 0)
        rows_out = cast("int", told.get("sink", {}).get("numOutputRows", -1))
        return self._keep(
            replace(
                flow,
                state="running",
                batch_id=told.get("batchId"),
                batch_duration_ms=duration_ms,
                rows_in=flow.rows_in + rows_in,
                rows_in_per_second=_per_second(rows_in, duration_ms),
                rows_out=flow.rows_out if rows_out < 0 else (flow.rows_out or 0) + rows_out,
                rows_out_per_second=None if rows_out < 0 else _per_second(rows_out, duration_ms),
                lag=_lag(told.get("sources", ())),
                updated=told.get("timestamp"),
                error=None,
            )
        )

    def ended(self, name: str, error: str | None) -> Flow:
        flow = self.get(short_name(name))
        state = "completed" if error is None else "failed"
        return self._keep(replace(flow, state=state, error=None if error is None else error[:_ERROR_LENGTH_MAX]))

    def _keep(self, flow: Flow) -> Flow:
        self._flows[flow.name] = flow
        return flow


def short_name(flow: str) -> str:
    """Without the catalog and the database that a table has if nobody chooses another."""
    return flow.replace("`", "").removeprefix("spark_catalog.").removeprefix("default.")


def ranges_between(start: object, end: object) -> list[Range]:
    """From two offsets of our source, as JSON or parsed; nothing for offsets of another."""
    starts, ends = _offsets(start), _offsets(end)
    return [
        Range(topic, int(partition), starts.get(topic, {}).get(partition, 0), offset)
        for topic, partitions in ends.items()
        for partition, offset in partitions.items()
        if offset > starts.get(topic, {}).get(partition, 0)
    ]


def _lag(sources: Sequence[Mapping[str, Any]]) -> int | None:
    lags = [
        sum(each.end - each.start for each in ranges_between(source.get("endOffset"), source.get("latestOffset")))
        for source in sources
        if _offsets(source.get("latestOffset"))
    ]
    return sum(lags) if lags else None


def _offsets(told: object) -> dict[str, dict[str, int]]:
    if isinstance(told, str | bytes):
        try:
            told = orjson.loads(told)
        except ValueError:
            return {}
    if not isinstance(told, dict):
        return {}
    topics = cast("dict[str, Any]", told)
    is_ours = all(
        isinstance(partitions, dict)
        and all(name.isdigit() and isinstance(offset, int) for name, offset in cast("dict[str, Any]", partitions).items())
        for partitions in topics.values()
    )
    return topics if is_ours else {}


def _per_second(rows: int, duration_ms: int) -> float | None:
    return round(rows * 1000 / duration_ms, 1) if duration_ms > 0 else None
