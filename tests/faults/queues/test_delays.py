"""Delayed records in numbers, under an injected clock: none early, none twice, none lost, none that was cancelled."""

from pathlib import Path

import pytest

from tests.faults.queues.delays import run


async def test_some_thousand_delays_over_crashes(tmp_path: Path) -> None:
    await run(tmp_path, count=3000, kills=3)


@pytest.mark.slow
async def test_a_hundred_thousand_delays_over_ten_crashes(tmp_path: Path) -> None:
    await run(tmp_path, count=100_000, kills=10)
