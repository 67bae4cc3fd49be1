"""A made-up benchmark result, input for the tests of reports and comparisons."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from benchmarks.figures import Case, Figure, Goal, Series
from benchmarks.processes import Resources
from benchmarks.report import Report
from benchmarks.scale import SMOKE
from benchmarks.suite import Failure
from benchmarks.systems import HEADWATER, KAFKA

RESOURCES = Resources(2.0, 0.25, 0.5, 30_000_000, 1_000_000_000, 1.5)


def case(name: str, why_headwater_only: str = "") -> Case:
    return Case(name, "what it does", lambda system, directory, scale: [], why_headwater_only=why_headwater_only)


def series(
    *values: float,
    case: str = "case",
    system: str = HEADWATER.name,
    name: str = "rate",
    unit: str = "MB/s",
    limit: str = "",
    goal: Goal | None = None,
) -> Series:
    made = Series(case, system, goal)
    made.figures += [Figure(name, unit, value, limit, f"round of {value}", RESOURCES) for value in values]
    return made


def report(
    found: Sequence[Series],
    cases: Sequence[Case] = (case("case"),),
    left_out: Mapping[str, str] | None = None,
    failures: Sequence[Failure] = (),
) -> Report:
    names = {each.system for each in found}
    systems = [system for system in (HEADWATER, KAFKA) if system.name in names]
    machine = {"cores": "2"}
    started = datetime(2026, 1, 2, tzinfo=UTC)
    return Report(cases, found, systems, left_out or {}, failures, SMOKE, machine, started)
