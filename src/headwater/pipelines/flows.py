"""How each flow is doing, folded from what Spark tells: events of the run and progress of its queries."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from headwater.pipelines import ranges
from headwater.pipelines.failures import explain, short_name

_EVENT = re.compile(r"Flow '?(?P<flow>[^\s']+)'? (?:is|has) (?P<state>[A-Z_]+)")
_ERROR_LENGTH_MAX = 2000


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

    def __iter__(self) -> Iterator[Flow]:
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
        flow, state = self.get(short_name(found["flow"])), found["state"].lower()
        # Spark calls completed whatever has ended, and only then says what failed.
        if state == "completed" and flow.state == "failed":
            return flow
        error = message.partition("Error: ")[2] if state == "failed" else ""
        if error:
            return self.ended(flow.name, explain(error).text)
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


def _lag(sources: Sequence[Mapping[str, Any]]) -> int | None:
    lags = [
        ranges.count(ranges.between(ranges.parse(source.get("endOffset")), latest))
        for source in sources
        if (latest := ranges.parse(source.get("latestOffset")))
    ]
    return sum(lags) if lags else None


def _per_second(rows: int, duration_ms: int) -> float | None:
    return round(rows * 1000 / duration_ms, 1) if duration_ms > 0 else None
