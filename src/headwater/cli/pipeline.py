"""`headwater pipeline`: writes, checks, runs, shows and stops Spark pipelines between topics."""

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwater.cli.duration import Duration, duration_text
from headwater.cli.options import (
    Assignment,
    bootstrap_option,
    client_config_file,
    client_set,
    client_settings,
    time_text,
)
from headwater.cli.output import format_option, show
from headwater.cli.verbose import verbose_option
from headwater.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.pipelines.sessions import SparkTarget
    from headwater.pipelines.state import State

Command = TypeVar("Command", bound="Callable[..., object]")

_STATUS_COLUMNS = ("name", "state", "batch_id", "rows_in", "rows_in_per_second", "rows_out", "lag", "error")
_POLL_S = 0.2

project_argument = click.argument("path", metavar="[PROJECT]", type=click.Path(path_type=Path), default=Path())


def spark_options(command: Command) -> Command:
    """Adds --master, --remote and --conf."""
    for option in (
        click.option(
            "--conf", "settings", type=Assignment(), multiple=True, help="A setting of Spark; may be repeated."
        ),
        click.option(
            "--remote",
            "--connect",
            "remote",
            metavar="URL",
            envvar="SPARK_REMOTE",
            help="A Spark Connect server, such as sc://host:15002.",
        ),
        click.option(
            "--master",
            metavar="URL",
            envvar="SPARK_MASTER",
            help="The cluster to run on: spark://host:7077, yarn, k8s://..., or local[N] for N cores of this machine. "
            "By default all cores of this machine.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def pipeline() -> None:
    """Write, check, run and stop Spark pipelines between topics.

    A pipeline is a project of Spark Declarative Pipelines (SQL and Python that define tables, views and sinks) or a
    plain PySpark script. Spark comes with it: pip install 'headwater[spark]'.
    """


@pipeline.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where to write it; by default here.",
)
def init(name: str, directory: Path) -> None:
    """Write a small project, NAME, that runs as it is.

    It reads orders from a topic, keeps the sensible ones in a table, and writes revenue per minute and product to a
    table and, exactly once, to another topic. Its README tells how to try it.

    \b
    Example:
      headwater pipeline init sales
    """
    from headwater.pipelines import template

    for path in template.write(directory, name):
        click.echo(f"wrote {path}")
    click.echo(f"next: cd {directory / name}, then see README.md, or: headwater pipeline run --once")


@pipeline.command()
@click.argument("path", metavar="[PROJECT|SCRIPT]", type=click.Path(path_type=Path), default=Path())
@click.argument("arguments", nargs=-1)
@click.option("--once", is_flag=True, help="Process what is there, and end.")
@click.option("--interval", type=Duration(), default="1s", show_default=True, help="Pause between two runs.")
@click.option(
    "--back-off-max", type=Duration(), default="1m", show_default=True, help="Longest pause after a run that failed."
)
@click.option(
    "--grace", type=Duration(), default="30s", show_default=True, help="How long a stop waits for the run under way."
)
@click.option(
    "--full-refresh",
    metavar="TABLE",
    multiple=True,
    help="Empty this table and its checkpoints and compute it anew; may be repeated, '*' means all.",
)
@spark_options
@click.option(
    "--format", type=click.Choice(("table", "json")), default="table", show_default=True, help="How to show progress."
)
@bootstrap_option
@verbose_option
def run(
    path: Path,
    arguments: tuple[str, ...],
    once: bool,
    interval: int,
    back_off_max: int,
    grace: int,
    full_refresh: tuple[str, ...],
    master: str | None,
    remote: str | None,
    settings: tuple[tuple[str, str], ...],
    format: str,
    bootstrap: str,
) -> int | None:
    """Run the project in PROJECT (by default here), or a plain PySpark SCRIPT.py with its ARGUMENTS.

    A project runs until it is stopped, by Ctrl-C, SIGTERM or `headwater pipeline stop`: it processes what has come in,
    pauses, and does so again, each time from where it was. A run that fails is tried again after a pause that grows. A
    stop lets the run under way finish, for as long as --grace; a second one does not.

    A script decides by itself how it runs. SparkSession.builder.getOrCreate() in it gives a session that is ready, and
    a stop ends its streaming queries; one that goes on for longer than --grace is interrupted.

    Definitions and scripts get the broker, and how to talk to it, from headwater.spark.client_options(), or from the
    environment variable HEADWATER_BOOTSTRAP.

    \b
    Examples:
      headwater pipeline run
      headwater pipeline run sales --once
      headwater pipeline run sales --master spark://host:7077 --conf spark.executor.memory=4g
      headwater pipeline run my_job.py
    """
    from headwater.cli.rows.pipeline_rows import display

    _tell_definitions(bootstrap)
    target = _target(master, remote, settings)
    is_script = path.suffix == ".py"
    if is_script and (once or full_refresh):
        raise click.UsageError("--once and --full-refresh are for projects; a script chooses its triggers itself")
    if arguments and not is_script:
        raise click.UsageError(f"only a script takes arguments; {path} is none")
    with display(format) as shown:
        if is_script:
            from headwater.pipelines.script_run import ScriptRun

            script = ScriptRun(path, target, shown, arguments=arguments, grace_ms=grace)

            def heed_signals() -> None:
                _on_stop(lambda *_: script.ask_to_stop())

            heed_signals()
            return script.run(ready=heed_signals)
        from headwater.pipelines import project
        from headwater.pipelines.run import Pace, ProjectRun

        pace = Pace(is_once=once, interval_ms=interval, back_off_max_ms=back_off_max, grace_ms=grace)
        runner = ProjectRun(project.load(path), target, pace, shown, full_refresh=full_refresh)

        def take_signals() -> None:
            _on_stop(lambda *_: runner.ask_to_stop())

        take_signals()
        runner.run(ready=take_signals)
    return None


@pipeline.command()
@project_argument
@spark_options
@format_option
@bootstrap_option
@verbose_option
def validate(
    path: Path,
    master: str | None,
    remote: str | None,
    settings: tuple[tuple[str, str], ...],
    format: str,
    bootstrap: str,
) -> None:
    """Check the project in PROJECT (by default here) without running it.

    Every definition is read, and every table, column and type in it is resolved; no record is read or written.

    \b
    Example:
      headwater pipeline validate sales
    """
    from headwater.pipelines import project, run

    _tell_definitions(bootstrap)
    found = project.load(path)
    run.validate(found, _target(master, remote, settings))
    if format == "table":
        click.echo(printable(f"{found.name} is valid"))
    else:
        show([{"pipeline": found.name, "valid": True}], format)


@pipeline.command()
@click.argument("path", metavar="[PROJECT|SCRIPT]", type=click.Path(path_type=Path), default=Path())
@format_option
def status(path: Path, format: str) -> None:
    """Show whether the pipeline in PROJECT (by default here) runs, and how its flows are doing.

    Numbers are those of the last batch of each flow; LAG is how many records wait in the topics that it reads.

    \b
    Example:
      headwater pipeline status sales --format json
    """
    from headwater.clock import SystemClock

    state = _state(path)
    flows = [dict(flow) for flow in state.flows]
    phase = state.phase if state.is_alive() or state.phase in {"stopped", "failed"} else "killed"
    # `status` is one of two words, for programs. `phase` tells how a pipeline ended.
    whole: dict[str, Any] = {
        "pipeline": state.pipeline,
        "status": "running" if state.is_alive() and state.phase not in {"stopped", "failed"} else "stopped",
        "phase": phase,
        "pid": state.pid,
        "where": state.where,
        "started": time_text(state.started_ms),
        "updated": time_text(state.updated_ms),
        "runs": state.run_count,
        "error": state.error,
    }
    if format != "table":
        show([{**whole, "flows": flows}], format)
        return
    since = duration_text(SystemClock().now_ms() - state.started_ms)
    click.echo(
        printable(
            f"pipeline {state.pipeline}  {whole['status']} ({phase})  process {state.pid}  on {state.where}  "
            f"started {whole['started']}, {since} ago  runs {state.run_count}"
        )
    )
    if state.error:
        click.echo(printable(f"error: {state.error}"))
    if flows:
        click.echo()
        show(flows, format, _STATUS_COLUMNS)


@pipeline.command()
@click.argument("path", metavar="[PROJECT|SCRIPT]", type=click.Path(path_type=Path), default=Path())
@click.option("--wait", type=Duration(), default="2m", show_default=True, help="How long to wait until it has ended.")
def stop(path: Path, wait: int) -> None:
    """Stop the pipeline in PROJECT (by default here), and wait until it has ended.

    The run under way may finish, as `headwater pipeline run` tells. Nothing is lost: the next run goes on from there.

    \b
    Example:
      headwater pipeline stop sales
    """
    import time

    from headwater.clock import SystemClock
    from headwater.pipelines import state as states

    state = _state(path)
    if not states.ask_to_stop(state):
        click.echo(f"{printable(state.pipeline)} is not running")
        return
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + wait
    while state.is_alive():
        if clock.monotonic_ms() >= deadline_ms:
            raise click.ClickException(
                f"process {state.pid} is still ending after {duration_text(wait)}: wait longer with --wait, or ask "
                "again, which cancels the run under way"
            )
        time.sleep(_POLL_S)
    click.echo(f"{printable(state.pipeline)} is stopped")


def _state(path: Path) -> "State":
    from headwater.pipelines import project
    from headwater.pipelines import state as states

    files = project.run_files_of(path)
    found = states.read(files.state)
    if found is None:
        raise click.ClickException(f"the pipeline in {path} never ran here; `headwater pipeline run` starts it")
    return found


def _tell_definitions(bootstrap: str) -> None:
    """Put the brokers' addresses and the client's configuration into the environment: Spark's Python processes inherit
    it, and `headwater.spark.client_options` reads it."""
    from headwater.spark import environment

    os.environ[environment.BOOTSTRAP] = client_settings(bootstrap, asks=False)["bootstrap.servers"]
    file = client_config_file()
    if file is not None:
        # Absolute, because definitions run in the directory of their project.
        os.environ[environment.CLIENT_CONFIG] = str(file.absolute())
    os.environ[environment.CLIENT_SET] = json.dumps(client_set())


def _target(master: str | None, remote: str | None, settings: tuple[tuple[str, str], ...]) -> "SparkTarget":
    from headwater.pipelines.sessions import SparkTarget

    if master is not None and remote is not None:
        raise click.UsageError("--master and --remote exclude each other: give one of them")
    return SparkTarget(master, remote, dict(settings))


def _on_stop(handler: "Callable[..., None]") -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
