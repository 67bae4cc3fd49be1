"""A result as a page that people read: tables case by case, plots, and the exact settings of every system."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from benchmarks.figures import Case
from benchmarks.report import Report, headings, notices, number, row
from benchmarks.systems import HEADWATER, PEER


def page(report: Report, plots: Mapping[str, str]) -> str:
    """`plots` names the picture of each case that has one; the one without a case shows them all."""
    return "\n".join(_lines(report, plots)).rstrip() + "\n"


def _lines(report: Report, plots: Mapping[str, str]) -> Iterator[str]:
    names = ", ".join(system.name for system in report.systems)
    yield f"# Results: {report.scale.name}, {report.started:%Y-%m-%d}"
    yield ""
    yield (
        f"Written by `python -m benchmarks --publish`. {report.scale.rounds} interleaved round"
        f"{'s' if report.scale.rounds > 1 else ''} of {names}, each broker alone on loopback with a fresh data "
        "directory. Figures are the median (least to greatest) of the rounds."
    )
    yield ""
    yield (
        f"A ratio is {HEADWATER.name} to the peer, round by round: above 1 is better where the unit ends in `/s`, "
        "below 1 everywhere else. A figure that is limited by the `client` says what the client can do, and only the "
        "CPU time beside it compares the brokers; `cores`: client and broker together used all that the machine has."
    )
    for line in notices(report):
        yield ""
        yield f"**{line}**"
    if "" in plots:
        yield from ("", f"![The ratio of every figure that has a goal]({plots['']})")
    for case in report.cases:
        yield from _case(report, case, plots.get(case.name))
    yield from _settings(report)


def _case(report: Report, case: Case, plot: str | None) -> Iterator[str]:
    comparisons = report.comparisons(case)
    if not comparisons:
        return
    yield from ("", f"## {case.name}", "", f"What it does: {case.about}.")
    if case.settings:
        yield from ("", "Set for it: " + ", ".join(f"`{name}={value}`" for name, value in case.settings.items()) + ".")
    if case.why_headwater_only:
        yield from ("", f"Only {HEADWATER.name}: {case.why_headwater_only}.")
    rows = [row(report, each) for each in comparisons]
    titles = headings(report)
    # A column in which nothing is said for this case is left out.
    kept = [column for column in range(len(titles)) if any(each[column] for each in rows)]
    yield ""
    yield from _table([titles[column] for column in kept], [[each[column] for column in kept] for each in rows])
    measured = list(_resources(report, case))
    if measured:
        titles = ["load", "system", "broker CPU, user", "system", "broker memory", "broker wrote", "client CPU", "took"]
        yield from ("", "<details><summary>What the loads took of the machine, in the middle round</summary>", "")
        yield from _table(titles, measured)
        yield from ("", "</details>")
    if plot is not None:
        yield from ("", f"![{case.name}]({plot})")


def _resources(report: Report, case: Case) -> Iterator[list[str]]:
    for comparison in report.comparisons(case):
        for name, series in comparison.series.items():
            used = series.typical.resources
            if used is not None:
                yield [
                    comparison.name,
                    name,
                    f"{used.broker_user_s:.2f} s",
                    f"{used.broker_system_s:.2f} s",
                    f"{number(used.broker_resident_bytes / 1e6)} MB",
                    f"{number(used.broker_written_bytes / 1e6)} MB",
                    f"{used.client_s:.2f} s",
                    f"{used.seconds:.2f} s",
                ]


def _settings(report: Report) -> Iterator[str]:
    yield from ("", "## Settings")
    for system in report.systems:
        yield from ("", f"### {system.name}", "", f"{system.about[0].upper()}{system.about[1:]}.", "")
        yield from _table(["", ""], [[f"`{name}`", f"`{value}`"] for name, value in system.describe().items()])
    yield from ("", "### Machine", "")
    yield from _table(["", ""], [[name, value] for name, value in report.machine.items()])
    yield from ("", "### Scale", "")
    yield from _table(["", ""], [[f"`{name}`", str(value)] for name, value in asdict(report.scale).items()])
    if PEER in (system.name for system in report.systems):
        yield ""
        yield (
            "Flush policies: `os` is Kafka's default and `headwater.flush=os`; `ack` is `flush.messages=1` for Kafka "
            "and `headwater.flush=ack`. Apache Kafka's start-up is counted from the start of the server's process; "
            "formatting its data directory, which comes before, is not in it."
        )


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for each in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in each) + " |"
