"""The status of each flow, folded from Spark's events of the run and the progress reports of its queries."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from headwater.pipelines.failures import explain, short_name
from headwater.spark.lag import source_lags

_EVENT = re.compile(r"Flow '?(?P<flow>[^\s']+)'? (?:is|has) (?P<state>[A-Z_]+)")
_ERROR_LENGTH_MAX = 2000


@dataclass(frozen=True, slots=True)
class Flow:
    """Rates are those of the last batch. None: the flow's source or sink does not report the figure."""

    name: str
    state: str = "queued"
    batch_id: int | None = None
    batch_duration_ms: int | None = None
    rows_in: int = 0
    rows_in_per_second: float | None = None
    rows_out: int | None = None
    rows_out_per_second: float | None = None
    # Number of unread records in the flow's topics.
    lag: int | None = None
    updated: str | None = None
    error: str | None = None

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


class Flows:
    """All flows of a pipeline, in order of their first event."""

    def __init__(self) -> None:
        self._flows: dict[str, Flow] = {}

    def __iter__(self) -> Iterator[Flow]:
        return iter(list(self._flows.values()))

    def rows(self) -> tuple[dict[str, Any], ...]:
        return tuple(flow.as_row() for flow in self)

    def get(self, name: str) -> Flow:
        return self._flows.get(name) or Flow(name)

    def apply_event(self, message: str) -> Flow | None:
        """Apply an event of a run, such as `Flow spark_catalog.default.orders is RUNNING.`

        Returns None if the event is not about a flow.
        """
        found = _EVENT.search(message)
        if found is None:
            return None
        flow, state = self.get(short_name(found["flow"])), found["state"].lower()
        # Spark also reports a failed flow as completed: its failure must not be overwritten.
        if state == "completed" and flow.state == "failed":
            return flow
        error = message.partition("Error: ")[2] if state == "failed" else ""
        if error:
            return self.apply_end(flow.name, explain(error).text)
        return self._keep(replace(flow, state=state, error=None if state == "completed" else flow.error))

    def apply_progress(self, progress: Mapping[str, Any]) -> Flow:
        """The progress of a streaming query, as Spark writes it in JSON."""
        flow = self.get(short_name(progress.get("name") or progress["id"]))
        rows_in = int(progress.get("numInputRows") or 0)
        duration_ms = int(progress.get("batchDuration") or 0)
        rows_out = cast("int", progress.get("sink", {}).get("numOutputRows", -1))
        return self._keep(
            replace(
                flow,
                state="running",
                batch_id=progress.get("batchId"),
                batch_duration_ms=duration_ms,
                rows_in=flow.rows_in + rows_in,
                rows_in_per_second=_per_second(rows_in, duration_ms),
                rows_out=flow.rows_out if rows_out < 0 else (flow.rows_out or 0) + rows_out,
                rows_out_per_second=None if rows_out < 0 else _per_second(rows_out, duration_ms),
                lag=_lag(progress),
                updated=progress.get("timestamp"),
                error=None,
            )
        )

    def apply_end(self, name: str, error: str | None) -> Flow:
        flow = self.get(short_name(name))
        state = "completed" if error is None else "failed"
        return self._keep(replace(flow, state=state, error=None if error is None else error[:_ERROR_LENGTH_MAX]))

    def _keep(self, flow: Flow) -> Flow:
        self._flows[flow.name] = flow
        return flow


def _lag(progress: Mapping[str, Any]) -> int | None:
    lags = source_lags(progress)
    return sum(lag.total for lag in lags) if lags else None


def _per_second(rows: int, duration_ms: int) -> float | None:
    return round(rows * 1000 / duration_ms, 1) if duration_ms > 0 else None
