"""A result as pictures: one for each case that more than one system ran, and one of all ratios that have a goal."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from benchmarks.comparison import Comparison
from benchmarks.report import Report, number
from benchmarks.systems import (
    BASELINE,
    HEADWATER,
    KAFKA,
    KAFKA_TUNED,
    NATS,
    PEER,
    RABBITMQ,
    RABBITMQ_CLASSIC,
    RABBITMQ_QUORUM,
    REDIS,
)

COLOURS = {
    HEADWATER.name: "#1f77b4",
    BASELINE.name: "#aec7e8",
    KAFKA.name: "#ff7f0e",
    KAFKA_TUNED.name: "#ffbb78",
    NATS.name: "#9467bd",
    REDIS.name: "#8c564b",
    RABBITMQ.name: "#7f7f7f",
    RABBITMQ_CLASSIC.name: "#bcbd22",
    RABBITMQ_QUORUM.name: "#17becf",
}
AHEAD, BEHIND = "#2ca02c", "#d62728"
ROW_INCHES, MARGIN_INCHES, WIDTH_INCHES = 0.22, 0.9, 10.0
DOTS_PER_INCH = 110


def draw(report: Report, directory: Path, prefix: str) -> dict[str, str]:
    """Returns the picture's file name by case; the key for the picture of all ratios is the empty name."""
    mpl.use("agg")
    directory.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, str] = {}
    for case in report.cases:
        comparisons = [each for each in report.comparisons(case) if len(each.series) > 1]
        if comparisons:
            drawn[case.name] = f"{prefix}-{case.name}.png"
            _save(_case_picture(case.name, comparisons), directory / drawn[case.name])
    judged = [each for case in report.cases for each in report.comparisons(case) if each.goal is not None]
    if judged:
        drawn[""] = f"{prefix}.png"
        _save(_ratio_picture(judged), directory / drawn[""])
    return drawn


def _case_picture(name: str, comparisons: Sequence[Comparison]) -> Picture:
    """Figures of the same unit share a scale."""
    by_unit: dict[str, list[Comparison]] = {}
    for each in comparisons:
        by_unit.setdefault(each.unit, []).append(each)
    bars = [sum(len(each.series) for each in found) for found in by_unit.values()]
    height = ROW_INCHES * sum(bars) + MARGIN_INCHES * len(bars)
    picture = Picture(figsize=(WIDTH_INCHES, height), layout="constrained")
    all_axes = picture.subplots(len(by_unit), 1, squeeze=False, gridspec_kw={"height_ratios": bars})[:, 0]
    for axes, (unit, found) in zip(all_axes, by_unit.items(), strict=True):
        _bars(axes, unit, found)
    all_axes[0].set_title(name)
    return picture


def _bars(axes: Axes, unit: str, comparisons: Sequence[Comparison]) -> None:
    """A group of bars for each figure, one of each system, with a line from the least to the greatest."""
    position, ticks = 0.0, list[float]()
    labelled: set[str] = set()
    for comparison in comparisons:
        first = position
        for name, series in comparison.series.items():
            spread = [[series.median - min(series.samples)], [max(series.samples) - series.median]]
            label = None if name in labelled else name
            axes.barh(position, series.median, 0.9, xerr=spread, color=COLOURS[name], label=label, ecolor="#444444")
            labelled.add(name)
            position += 1
        ticks.append((first + position - 1) / 2)
        position += 0.6
    axes.set_yticks(ticks, [each.name for each in comparisons], fontsize=8)
    axes.invert_yaxis()
    direction = "more is better" if comparisons[0].is_more_better else "less is better"
    axes.set_xlabel(f"{unit} ({direction})", fontsize=8)
    axes.legend(fontsize=8)
    axes.grid(axis="x", alpha=0.3)


def _ratio_picture(comparisons: Sequence[Comparison]) -> Picture:
    picture = Picture(figsize=(WIDTH_INCHES, ROW_INCHES * len(comparisons) + MARGIN_INCHES), layout="constrained")
    axes = picture.subplots()
    for position, comparison in enumerate(comparisons):
        ratio, goal = comparison.ratios[PEER], comparison.goal
        assert goal is not None, "only what has a goal is drawn"
        colour = AHEAD if comparison.goal_met else BEHIND
        axes.plot([min(ratio.samples), max(ratio.samples)], [position, position], color=colour, linewidth=1)
        axes.plot(ratio.median, position, "o", color=colour, markersize=5)
        # Where the goal lies, and to which side of it is good.
        axes.plot(goal.value, position, "<" if goal.is_ceiling else ">", color="#888888", markersize=4)
    names = [f"{each.case}: {each.name} ({number(each.ratios[PEER].median)})" for each in comparisons]
    axes.set_yticks(range(len(comparisons)), names, fontsize=7)
    axes.set_ylim(len(comparisons) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(1.0, color="#888888", linewidth=0.8)
    axes.set_xlabel(f"{HEADWATER.name} / {PEER}; grey: the goal, green: met", fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    return picture


def _save(picture: Picture, path: Path) -> None:
    # The same result gives the same bytes.
    picture.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})
