"""A result as text for the terminal and as JSON for whoever compares it later."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import Case, Series
from benchmarks.scale import Scale
from benchmarks.systems import System

HEADINGS = ("figure", "median", "least", "greatest", "unit", "goal", "", "limited by")
LEFT_COLUMNS = (0, 4, 6, 7)
RESULTS = Path(__file__).parent / "results"


def table(cases: Sequence[Case], series: Iterable[Series]) -> str:
    by_case: dict[str, list[Series]] = {}
    for each in series:
        by_case.setdefault(each.case, []).append(each)
    rows: dict[str, list[tuple[str, ...]]] = {name: [_row(each) for each in found] for name, found in by_case.items()}
    everything = [HEADINGS, *(row for found in rows.values() for row in found)]
    widths = [max(len(row[column]) for row in everything) for column in range(len(HEADINGS))]
    lines = [_line(HEADINGS, widths)]
    for case in cases:
        if case.name in rows:
            lines += ["", f"{case.name}: {case.about}", *(_line(row, widths) for row in rows[case.name])]
    return "\n".join(lines)


def document(
    cases: Sequence[Case],
    series: Iterable[Series],
    *,
    systems: Iterable[System],
    scale: Scale,
    machine: Mapping[str, str],
    started: datetime,
) -> dict[str, object]:
    found = list(series)
    return {
        "started": started.isoformat(timespec="seconds"),
        "minutes": round((datetime.now(UTC) - started).total_seconds() / 60, 1),
        "scale": asdict(scale),
        "machine": dict(machine),
        "systems": {system.name: dict(system.describe()) for system in systems},
        "cases": [
            {
                "name": case.name,
                "about": case.about,
                "settings": dict(case.settings),
                "figures": [_figure(each) for each in found if each.case == case.name],
            }
            for case in cases
        ],
    }


def save(result: Mapping[str, object], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")


def _figure(series: Series) -> dict[str, object]:
    goal = series.goal
    return {
        "system": series.system,
        "name": series.name,
        "unit": series.unit,
        "samples": series.samples,
        "median": series.median,
        "least": min(series.samples),
        "greatest": max(series.samples),
        "goal": None if goal is None else {"at most" if goal.is_ceiling else "at least": goal.value},
        "met": series.goal_met,
        "limited by": series.typical.limit,
        "note": series.typical.note,
    }


def _row(series: Series) -> tuple[str, ...]:
    goal = series.goal
    return (
        f"  {series.name}",
        _number(series.median),
        _number(min(series.samples)),
        _number(max(series.samples)),
        series.unit,
        "" if goal is None else f"{'<=' if goal.is_ceiling else '>='} {_number(goal.value)}",
        {None: "", True: "met", False: "MISSED"}[series.goal_met],
        series.typical.limit,
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Names and units to the left, numbers to the right."""
    cells = [
        cell.ljust(width) if column in LEFT_COLUMNS else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _number(value: float) -> str:
    """Three digits that mean something, and no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
