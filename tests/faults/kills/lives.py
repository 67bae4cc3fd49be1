"""The long form: lives with failpoints chosen at random, one after the other."""

import random
import shutil
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.faults.kills.failpoints import FAILPOINTS
from tests.faults.kills.life import Life

# Each check reads all data, so a life must be short.
_FAILPOINTS_A_LIFE = 10
# The share of deaths that are followed by another one during recovery.
_AGAIN_SHARE = 0.3


class Kills(NamedTuple):
    lives: int
    kills: int


def run(directory: Path, *, seed: int, deadline: float = float("inf"), kills_max: int | None = None) -> Kills:
    """Run until the deadline on the monotonic clock, or for this many kills. An AssertionError names the seed of the
    life; a run from that seed begins with that life."""
    lives = kills = 0
    for life_seed in count(seed):
        if time.monotonic() >= deadline or (kills_max is not None and kills >= kills_max):
            break
        try:
            kills += _live(directory / f"life-{life_seed}", random.Random(life_seed), deadline, kills_max)
        except Exception as problem:
            raise AssertionError(f"life of seed {life_seed}, after {kills} kills: {problem}") from problem
        shutil.rmtree(directory / f"life-{life_seed}")
        lives += 1
    return Kills(lives, kills)


def _live(directory: Path, chance: random.Random, deadline: float, kills_max: int | None) -> int:
    directory.mkdir()
    kills = 0
    with Life(directory, flush=chance.choice(("ack", "interval", "os"))) as life:
        for _ in range(_FAILPOINTS_A_LIFE):
            name = chance.choice(list(FAILPOINTS))
            kills += life.die_at(name, chance.randint(1, FAILPOINTS[name].passages_max))
            while chance.random() < _AGAIN_SHARE and kills_max is None:
                # The broker dies at the next failpoint while it recovers from this one, or soon after.
                name = chance.choice(list(FAILPOINTS))
                kills += life.die_at(name, 1)
            life.recover()
            if time.monotonic() >= deadline or (kills_max is not None and kills >= kills_max):
                break
    return kills
