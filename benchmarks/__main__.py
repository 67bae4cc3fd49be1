"""`python -m benchmarks`: measures this broker and its peers, prints a table and saves the result."""

import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from benchmarks import machine, publish, report
from benchmarks.figures import Case
from benchmarks.report import Report
from benchmarks.scale import FULL, QUICK, SCALES, SMOKE
from benchmarks.suite import CASES, available, measure, select
from benchmarks.systems import KAFKA_PROTOCOL, SYSTEMS, selected


@click.command()
@click.option("--quick", "scale_name", flag_value=QUICK.name, help="Less data, and a few cases unless some are named.")
@click.option("--smoke", "scale_name", flag_value=SMOKE.name, help="Only shows that every case works.")
@click.option("--case", "patterns", metavar="NAME", multiple=True, help="Only this case, or 'latency-*'; repeatable.")
@click.option("--system", "system_names", metavar="NAME", multiple=True, help="Only this system; repeatable.")
@click.option("--rounds", type=click.IntRange(1, 100), help="How often each case runs.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Where the JSON goes.")
@click.option(
    "--publish",
    "publish_to",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write JSON, a page and plots into this directory, under the name of the scale.",
)
@click.option("--name", help="Another name for what is published.")
@click.option("--list", "is_list", is_flag=True, help="Print the systems and cases, and stop.")
def main(
    scale_name: str | None,
    patterns: tuple[str, ...],
    system_names: tuple[str, ...],
    rounds: int | None,
    output: Path | None,
    publish_to: Path | None,
    name: str | None,
    *,
    is_list: bool,
) -> None:
    """Measure this broker beside Apache Kafka: a table here, JSON in benchmarks/results."""
    if is_list:
        _print_list()
        return
    scale = SCALES[scale_name or FULL.name]
    if rounds is not None:
        scale = replace(scale, rounds=rounds)
    try:
        cases, cases_left_out = available(select(patterns, scale))
        # Systems that run none of the chosen cases are not mentioned.
        systems, systems_left_out = selected(system_names or [each for each in SYSTEMS if _runs_any(each, cases)])
        systems = [system for system in systems if _runs_any(system.name, cases)]
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from error
    left_out = {**systems_left_out, **cases_left_out}
    for what, why in left_out.items():
        _say(f"{what} is left out: {why}")
    if not systems or not cases:
        raise click.ClickException("there is nothing to measure")
    # Ending this process also ends the brokers that it started.
    signal.signal(signal.SIGTERM, _end)
    started = datetime.now(UTC)
    described = machine.describe(Path(__file__).parent)
    series, failures = measure(cases, systems, scale, _say)
    result = Report(cases, series, systems, left_out, failures, scale, described, started)
    click.echo(report.table(result))
    path = output or report.RESULTS / f"{started:%Y%m%dT%H%M%SZ}-{scale.name}.json"
    report.save(report.document(result), path)
    _say(f"\nsaved as {path}")
    if publish_to is not None:
        _say(f"published as {publish.write(result, publish_to, name or scale.name)}")
    sys.exit(1 if failures else 0)


def _print_list() -> None:
    click.echo("systems:")
    for system in SYSTEMS.values():
        why = system.missing()
        of_use = [case.name for case in CASES if case.is_for(system)]
        only = "" if system.protocol == KAFKA_PROTOCOL else f" (only {', '.join(of_use)})"
        click.echo(f"  {system.name:20} {system.about}{only}{f'; left out here: {why}' if why else ''}")
    click.echo("cases:")
    for case in CASES:
        only = " (only headwater)" if case.why_headwater_only else ""
        why = case.missing()
        click.echo(f"  {case.name:20} {case.about}{only}{f'; left out here: {why}' if why else ''}")


def _runs_any(system: str, cases: Sequence[Case]) -> bool:
    return any(case.is_for(SYSTEMS[system]) for case in cases)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
