"""`python -m benchmarks`: measures this broker, prints a table and saves the result as JSON."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks import machine, report
from benchmarks.scale import FULL, QUICK, SCALES, SMOKE
from benchmarks.suite import CASES, measure
from benchmarks.systems import SYSTEMS


@click.command()
@click.option("--quick", "scale_name", flag_value=QUICK.name, help="Less data and fewer rounds: about three minutes.")
@click.option("--smoke", "scale_name", flag_value=SMOKE.name, help="Only shows that every case works.")
@click.option("--case", "case_names", metavar="NAME", multiple=True, help="Only this case; may be repeated.")
@click.option("--rounds", type=click.IntRange(1, 100), help="How often each case runs.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Where the JSON goes.")
@click.option("--list", "is_list", is_flag=True, help="Print the cases and stop.")
def main(
    scale_name: str | None, case_names: tuple[str, ...], rounds: int | None, output: Path | None, *, is_list: bool
) -> None:
    """Measure this broker: a table here, JSON in benchmarks/results."""
    if is_list:
        for case in CASES:
            click.echo(f"{case.name:20} {case.about}")
        return
    known = {case.name: case for case in CASES}
    for name in case_names:
        if name not in known:
            raise click.UsageError(f"--case {name}: the cases are {', '.join(known)}")
    cases = [case for case in CASES if not case_names or case.name in case_names]
    scale = SCALES[scale_name or FULL.name]
    if rounds is not None:
        scale = replace(scale, rounds=rounds)
    systems = list(SYSTEMS.values())
    started = datetime.now(UTC)
    described = machine.describe(Path(__file__).parent)
    series = measure(cases, systems, scale, lambda line: click.echo(line, err=True))
    click.echo(report.table(cases, series))
    result = report.document(cases, series, systems=systems, scale=scale, machine=described, started=started)
    path = output or report.RESULTS / f"{started:%Y%m%dT%H%M%SZ}-{scale.name}.json"
    report.save(result, path)
    click.echo(f"\nsaved as {path}", err=True)


if __name__ == "__main__":
    main()
