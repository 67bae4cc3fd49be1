"""The short form of the soak: one round."""

from pathlib import Path

import pytest

from tests.faults.soak.running import soak

pytestmark = pytest.mark.slow

LOAD_S = 10.0


def test_a_round_of_all_clients_and_faults_breaks_no_promise(tmp_path: Path) -> None:
    said: list[str] = []

    figures = soak(tmp_path, minutes=LOAD_S / 60, seed=1, say=said.append, round_s=LOAD_S)

    assert not figures.violations, "\n".join(figures.violations)
    assert figures.rounds == 1
    assert figures.faults
    assert all(figures.operations[kind] for kind in ("send", "end", "poll", "commit", "fetch"))
