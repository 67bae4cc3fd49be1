"""Explores lives, crashes in them, and crashes in their recoveries: all of them, or a given number."""

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.faults.power_loss.checking import Promised, Recovery, recover
from tests.faults.power_loss.recording import RecordingDisk, Step
from tests.faults.power_loss.states import LOSSES, Loss, after_crash
from tests.faults.power_loss.workload import Life

# The share of recoveries with another crash.
TWICE_SHARE = 0.15
SEED_MAX = 1 << 30


class Crash(NamedTuple):
    """A crash after a step of a life, or of the recovery from the previous crash."""

    step: int
    loss: Loss


class Violation(AssertionError):
    """A broken promise; its message says how to reproduce it."""


async def explore(
    directory: Path,
    *,
    seed: int,
    flush: str,
    operations: int | Sequence[str],
    crashes: int | None = None,
    disk_type: type[RecordingDisk] = RecordingDisk,
) -> AsyncIterator[Crash]:
    """Yield each survived crash. `operations` is a number of operations or their names; without a number of crashes,
    crashes come after every step in every way."""
    chance = random.Random(seed)
    life = Life(directory / "life", flush, seed, disk_type)
    try:
        await life.begin()
        await life.live(operations)
        end = life.step
    finally:
        await life.stop()
    for crash in _chosen(range(life.first_step, end + 1), crashes, chance):
        recovery = await _survive(directory / "crashed", life.disk.steps, life, [crash])
        yield crash
        if chance.random() < TWICE_SHARE:
            (again,) = _chosen(range(recovery.first_step, len(recovery.steps) + 1), 1, chance)
            await _survive(directory / "again", recovery.steps, life, [crash, again])
            yield again


def _chosen(steps: range, count: int | None, chance: random.Random) -> Iterator[Crash]:
    if count is None:
        for step, (names, contents) in product(steps, LOSSES):
            yield Crash(step, Loss(names, contents, chance.randrange(SEED_MAX)))
        return
    for _ in range(count):
        names, contents = chance.choice(LOSSES)
        yield Crash(chance.choice(steps), Loss(names, contents, chance.randrange(SEED_MAX)))


async def _survive(root: Path, steps: Sequence[Step], life: Life, crashes: Sequence[Crash]) -> Recovery:
    step, loss = crashes[-1]
    after_crash(steps[:step], loss).materialize(root)
    is_power_loss = any(crash.loss.is_power_loss for crash in crashes)
    promised = Promised(life.history, crashes[0].step, life.is_strict or not is_power_loss)
    try:
        return await recover(root, life.settings, promised)
    except Exception as error:
        raise Violation(f"{life.description}, {[*crashes]}: {type(error).__name__}: {error}") from error
