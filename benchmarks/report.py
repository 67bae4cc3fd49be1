"""A result as text for the terminal and as JSON for later comparison."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.comparison import Comparison, Ratio, compare
from benchmarks.figures import Case, Goal, Series
from benchmarks.scale import Scale
from benchmarks.suite import Failure
from benchmarks.systems import HEADWATER, System

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run has to say."""

    cases: Sequence[Case]
    series: Sequence[Series]
    systems: Sequence[System]
    left_out: Mapping[str, str]
    """Systems and cases that could not be measured, and why."""
    failures: Sequence[Failure]
    scale: Scale
    machine: Mapping[str, str]
    started: datetime

    def comparisons(self, case: Case) -> list[Comparison]:
        return compare(each for each in self.series if each.case == case.name)

    @property
    def peers(self) -> list[str]:
        return [system.name for system in self.systems if system.name != HEADWATER.name]


def headings(report: Report) -> list[str]:
    ratios = [f"ratio to {name}" for name in report.peers]
    return ["figure", *(system.name for system in report.systems), "unit", *ratios, "goal", "", "limited by"]


def row(report: Report, comparison: Comparison) -> list[str]:
    """One figure: the median of each system with its least and greatest, and the same of the ratios."""
    spreads = [_spread_of(comparison.series.get(system.name)) for system in report.systems]
    ratios = [_ratio(comparison.ratios.get(name)) for name in report.peers]
    ours = comparison.series.get(HEADWATER.name)
    if comparison.goal is not None:
        goal, is_met = f"ratio {_bound(comparison.goal)}", comparison.goal_met
    else:
        goal, is_met = (_bound(ours.goal), ours.goal_met) if ours and ours.goal else ("", None)
    met = {None: "", True: "met", False: "MISSED"}[is_met]
    return [comparison.name, *spreads, comparison.unit, *ratios, goal, met, limits(comparison)]


def limits(comparison: Comparison) -> str:
    """One word if it is the same for all, else one for each that has a limit."""
    found = {name: series.typical.limit for name, series in comparison.series.items()}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{name}: {limit}" for name, limit in found.items() if limit)


def table(report: Report) -> str:
    titles = headings(report)
    rows = {case.name: [row(report, each) for each in report.comparisons(case)] for case in report.cases}
    everything = [titles, *(each for found in rows.values() for each in found)]
    widths = [max(len(each[column]) for each in everything) for column in range(len(titles))]
    lines = [_line(titles, widths)]
    for case in report.cases:
        lines += ["", f"{case.name}: {case.about}"]
        if case.why_headwater_only:
            lines.append(f"  only {HEADWATER.name}: {case.why_headwater_only}")
        lines += [_line(each, widths) for each in rows[case.name]]
    return "\n".join([*lines, *(f"\n{line}" for line in notices(report))])


def notices(report: Report) -> list[str]:
    """Lines about failures and skipped systems, which have no figures."""
    missing = [f"{name} was left out: {why}" for name, why in report.left_out.items()]
    failed = [f"{each.case} FAILED with {each.system} in round {each.round}: {each.reason}" for each in report.failures]
    return missing + failed


def document(report: Report) -> dict[str, object]:
    return {
        "started": report.started.isoformat(timespec="seconds"),
        "minutes": round((datetime.now(UTC) - report.started).total_seconds() / 60, 1),
        "scale": asdict(report.scale),
        "machine": dict(report.machine),
        "systems": {system.name: {"about": system.about, **system.describe()} for system in report.systems},
        "left out": dict(report.left_out),
        "failures": [
            {"case": each.case, "system": each.system, "round": each.round, "reason": each.reason}
            for each in report.failures
        ],
        "cases": [
            {
                "name": case.name,
                "about": case.about,
                "settings": dict(case.settings),
                "only headwater": case.why_headwater_only or None,
                "figures": [_figure(each) for each in report.series if each.case == case.name],
                "ratios": [_ratios(each) for each in report.comparisons(case) if each.ratios],
            }
            for case in report.cases
        ],
    }


def save(result: Mapping[str, object], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")


def number(value: float) -> str:
    """Three significant digits, without exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _figure(series: Series) -> dict[str, object]:
    goal, typical = series.goal, series.typical
    return {
        "system": series.system,
        "name": series.name,
        "unit": series.unit,
        "samples": series.samples,
        "median": series.median,
        "least": min(series.samples),
        "greatest": max(series.samples),
        "goal": None if goal is None else _goal(goal),
        "met": series.goal_met,
        "limited by": typical.limit,
        "note": typical.note,
        "resources": None if typical.resources is None else asdict(typical.resources),
    }


def _ratios(comparison: Comparison) -> dict[str, object]:
    return {
        "name": comparison.name,
        "headwater to": {
            name: {"median": ratio.median, "least": min(ratio.samples), "greatest": max(ratio.samples)}
            for name, ratio in comparison.ratios.items()
        },
        "goal": None if comparison.goal is None else _goal(comparison.goal),
        "met": comparison.goal_met,
    }


def _goal(goal: Goal) -> dict[str, float]:
    return {"at most" if goal.is_ceiling else "at least": goal.value}


def _bound(goal: Goal) -> str:
    return f"{'<=' if goal.is_ceiling else '>='} {number(goal.value)}"


def _spread_of(series: Series | None) -> str:
    return "" if series is None else _spread(series.median, series.samples)


def _ratio(ratio: Ratio | None) -> str:
    return "" if ratio is None else _spread(ratio.median, ratio.samples)


def _spread(median: float, samples: Sequence[float]) -> str:
    if len(samples) == 1:
        return number(median)
    return f"{number(median)} ({number(min(samples))} to {number(max(samples))})"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
