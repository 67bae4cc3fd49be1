"""Writes a result where it is kept: `NAME.json`, `NAME.md` and, in `plots/`, the pictures that the page shows."""

from pathlib import Path

from benchmarks import markdown, report
from benchmarks.report import Report

PLOTS = "plots"


def write(result: Report, directory: Path, name: str) -> Path:
    # Imported here because measuring alone does not need the plot library.
    from benchmarks import plots  # noqa: PLC0415

    drawn = plots.draw(result, directory / PLOTS, name)
    report.save(report.document(result), directory / f"{name}.json")
    page = directory / f"{name}.md"
    page.write_text(markdown.page(result, {case: f"{PLOTS}/{file}" for case, file in drawn.items()}))
    return page
