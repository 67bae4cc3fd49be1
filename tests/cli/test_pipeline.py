"""`headwater pipeline` without Spark. How pipelines run is tested in tests/pipelines."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.cli.rows.pipeline_rows import JsonLines, Lines, display
from headwater.pipelines import state
from headwater.pipelines.flows import Flow, Flows
from headwater.pipelines.run import Pace
from headwater.pipelines.state import State
from headwater.pipelines.status_reporter import Update
from tests.support.cli.commands import Commands, Terminal


@pytest.fixture
def project(commands: Commands, tmp_path: Path) -> Path:
    commands.succeed("pipeline", "init", "sales", "--directory", str(tmp_path))
    return tmp_path / "sales"


def told(directory: Path, pid: int, **changes: object) -> State:
    flow = Flow("orders", "running", batch_id=2, batch_duration_ms=40, rows_in=7, rows_in_per_second=175.0, lag=3)
    start = state.process_start(pid)
    assert start is not None
    written = State("sales", pid, start, 1_700_000_000_000, 1_700_000_001_000, "running", 4, "embedded Spark")
    written = replace(written, flows=(flow.as_row(),), **changes)
    state.write(directory / ".headwater" / "state.json", written)
    return written


def test_init_writes_a_project_and_prints_the_next_steps(commands: Commands, tmp_path: Path) -> None:
    outcome = commands.succeed("pipeline", "init", "sales", "--directory", str(tmp_path))

    assert outcome.lines[0] == f"wrote {tmp_path}/sales/spark-pipeline.yml"
    assert "headwater pipeline run --once" in outcome.lines[-1]
    names = {str(path.relative_to(tmp_path / "sales")) for path in (tmp_path / "sales").rglob("*") if path.is_file()}
    assert names >= {"README.md", "sample_orders.py", "transformations/orders.py", "transformations/revenue.sql"}


def test_sample_orders_are_lines_that_the_produce_command_accepts(project: Path) -> None:
    orders = subprocess.run(
        [sys.executable, project / "sample_orders.py", "5"], capture_output=True, text=True, check=True
    )

    assert len(orders.stdout.splitlines()) == 5


def test_status_of_a_running_pipeline_shows_its_flows(commands: Commands, project: Path) -> None:
    told(project, os.getpid())

    outcome = commands.succeed("pipeline", "status", str(project))

    assert outcome.lines[0].startswith(f"pipeline sales  running (running)  process {os.getpid()}  on embedded Spark")
    columns = ["NAME", "STATE", "BATCH_ID", "ROWS_IN", "ROWS_IN_PER_SECOND", "ROWS_OUT", "LAG", "ERROR"]
    assert outcome.lines[2].split() == columns
    assert outcome.lines[3].split() == ["orders", "running", "2", "7", "175.0", "-", "3", "-"]


def test_status_as_json_has_every_field(commands: Commands, project: Path) -> None:
    told(project, os.getpid(), error="flow orders: it broke")

    (row,) = commands.succeed("pipeline", "status", str(project), "--format", "json").rows

    assert (row["pipeline"], row["status"], row["runs"], row["error"]) == (
        "sales",
        "running",
        4,
        "flow orders: it broke",
    )
    assert row["started"] == "2023-11-14T22:13:20.000Z"
    assert row["flows"][0]["batch_duration_ms"] == 40
    assert "error: flow orders: it broke" in commands.succeed("pipeline", "status", str(project)).lines


@pytest.mark.parametrize(("phase", "shown"), [("running", "killed"), ("stopped", "stopped"), ("failed", "failed")])
def test_a_pipeline_whose_process_is_gone_is_not_shown_as_running(
    commands: Commands, project: Path, phase: str, shown: str
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        told(project, child.pid, phase=phase)
        child.kill()

    (row,) = commands.succeed("pipeline", "status", str(project), "--format", "json").rows

    assert (row["status"], row["phase"]) == ("stopped", shown)
    assert commands.succeed("pipeline", "stop", str(project)).lines == ["sales is not running"]


def test_stop_ends_the_process_and_waits_for_it(commands: Commands, project: Path) -> None:
    # No parent reaps the process while `stop` waits: a zombie process counts as gone too.
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        told(project, child.pid)

        assert commands.succeed("pipeline", "stop", str(project)).lines == ["sales is stopped"]


def test_stop_reports_a_process_that_does_not_end_in_time(commands: Commands, project: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", stubborn], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        told(project, child.pid)

        outcome = commands("pipeline", "stop", str(project), "--wait", "0ms")
        child.kill()

    assert outcome.code == 1
    assert "still ending after 0ms: wait longer with --wait" in outcome.error


def test_a_pipeline_that_never_ran_has_no_status(commands: Commands, project: Path) -> None:
    outcome = commands("pipeline", "status", str(project))

    assert outcome.code == 1
    assert "never ran here; `headwater pipeline run` starts it" in outcome.error


def test_a_second_run_is_refused_while_the_first_is_running(commands: Commands, project: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        told(project, child.pid)
        outcome = commands("pipeline", "run", str(project), "--once")
        child.kill()

    assert outcome.code == 1
    assert f"running already, as process {child.pid}: `headwater pipeline stop` ends it" in outcome.error


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nowhere",), 1, "nowhere does not exist; `headwater pipeline init NAME`"),
        (("nowhere.py",), 1, "nowhere.py does not exist"),
        (("job.py", "--once"), 2, "a script chooses its triggers itself"),
        ((".", "more"), 2, "only a script takes arguments"),
        ((".", "--master", "local[1]", "--remote", "sc://here"), 2, "exclude each other"),
        ((".", "--master", "local[1]", "--connect", "sc://here"), 2, "exclude each other"),
        ((".", "--interval", "5"), 2, "is not a number with a unit"),
    ],
)
def test_an_error_in_the_project_is_reported_before_spark_starts(
    commands: Commands, arguments: tuple[str, ...], code: int, message: str
) -> None:
    outcome = commands("pipeline", "run", *arguments)

    assert outcome.code == code
    assert message in outcome.error


def test_the_pause_after_a_failure_doubles_up_to_its_maximum() -> None:
    pace = Pace(back_off_max_ms=10_000)

    assert [pace.back_off_ms(count) for count in (1, 2, 3, 4, 5, 500)] == [1000, 2000, 4000, 8000, 10_000, 10_000]


def progressed() -> Flows:
    flows = Flows()
    flows.apply_progress(
        {
            "id": "1",
            "name": "orders",
            "batchId": 0,
            "batchDuration": 2000,
            "numInputRows": 9,
            "sink": {"numOutputRows": 8},
        }
    )
    return flows


def test_without_a_terminal_each_status_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    show, flows = Lines(), progressed()

    show(Update("running", 1, flows, "begun"))
    show(Update("running", 1, flows))
    flows.apply_end("orders", "it broke")
    show(Update("running", 1, flows))

    numbers = "batch 0 in 2s 0ms, 9 rows in (4.5/s), 8 rows out (4/s)"
    assert capsys.readouterr().out.splitlines() == [
        f"flow orders: running, {numbers}",
        "begun",
        f"flow orders: failed, {numbers}, error: it broke",
    ]


def test_as_json_each_status_change_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    show, flows = JsonLines(), progressed()

    show(Update("running", 1, flows))
    show(Update("running", 1, flows))
    show(Update("waiting", 1, flows))

    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith('{"phase":"running","run":1,"message":null,"flows":[{"name":"orders"')
    assert second.startswith('{"phase":"waiting"')


def test_on_a_terminal_a_table_is_updated_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal() as terminal:
        with os.fdopen(os.dup(terminal.side.fileno()), "w") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            monkeypatch.setenv("TERM", "xterm")
            monkeypatch.setenv("COLUMNS", "120")
            with display("table") as show:
                show(Update("running", 3, progressed(), "begun"))
        monkeypatch.undo()
        shown = terminal.shown().decode()

    assert "running, run 3" in shown
    assert "orders" in shown
    assert "begun" in shown
