"""The state file of a run, and that another process is never mistaken for the run."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.pipelines import state
from headwater.pipelines.state import State, StateError


def of(pid: int) -> State:
    started = state.process_start(pid)
    assert started is not None
    return State("sales", pid, started, started_ms=1, updated_ms=2, phase="running", flows=({"name": "orders"},))


def test_a_written_state_is_read_back(tmp_path: Path) -> None:
    written = of(os.getpid())
    state.write(tmp_path / "deep" / "state.json", written)

    assert state.read(tmp_path / "deep" / "state.json") == written
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["state.json"]


def test_without_a_run_there_is_no_state(tmp_path: Path) -> None:
    assert state.read(tmp_path / "state.json") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"flows": []}', b'{"flows": [], "pid": "1"}', b"\xff"])
def test_an_invalid_state_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.json").write_bytes(content)

    with pytest.raises(StateError, match="remove it"):
        state.read(tmp_path / "state.json")


def test_a_process_is_the_run_only_if_its_start_time_matches() -> None:
    mine = of(os.getpid())

    assert mine.is_alive()
    assert not replace(mine, process_start=mine.process_start - 1).is_alive()
    assert not state.ask_to_stop(replace(mine, process_start=mine.process_start - 1)), "would have ended this test"


def test_a_process_that_is_asked_to_stop_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"], stdout=-1
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        running = of(child.pid)

        assert state.ask_to_stop(running)
        child.wait()

    assert not running.is_alive()
    assert not state.ask_to_stop(running)


def test_a_zombie_process_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        running = of(child.pid)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert not running.is_alive()
