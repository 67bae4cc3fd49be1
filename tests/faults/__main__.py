"""`python -m tests.faults`: the long forms of fault tests, for as long as told, from a seed that repeats them."""

import asyncio
import logging
import tempfile
import time
from itertools import count, product
from pathlib import Path

import click

from tests.faults.power_loss.exploring import explore
from tests.faults.power_loss.workload import OPERATIONS

CRASHES_PER_LIFE = 400
OPERATIONS_PER_LIFE = 80
SHORT_LIFE = 3
REPORT_S = 10


@click.group()
def main() -> None:
    """Long fault tests. Each ends with what it did, and at the first violation with how to see it again."""
    # Brokers report every damage that they find, which is all that they meet here.
    logging.disable(logging.CRITICAL)


@main.command()
@click.option("--minutes", type=float, default=30.0, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the first life; the next has the next one.")
def power_loss(minutes: float, seed: int) -> None:
    """Random lives of brokers on a recording disk, with crashes behind random steps, and while they recover."""
    deadline = time.monotonic() + minutes * 60
    lives = states = 0
    reported = time.monotonic()
    for number, flush in product(count(seed), ("ack", "os")):
        if time.monotonic() >= deadline:
            break
        with tempfile.TemporaryDirectory() as directory:
            states += asyncio.run(_live(Path(directory), number, flush, deadline))
        lives += 1
        if time.monotonic() - reported >= REPORT_S:
            reported = time.monotonic()
            click.echo(f"{states:,} crash states of {lives:,} lives, seed {number}", err=True)
    click.echo(f"{states:,} crash states of {lives:,} lives from seed {seed}, no violation")


@main.command()
@click.option("--operations", type=click.IntRange(1, 4), default=SHORT_LIFE, show_default=True, help="In each life.")
@click.option("--part", default="1/1", show_default=True, metavar="N/M", help="Every M-th life, from the N-th.")
def short_lives(operations: int, part: str) -> None:
    """All lives of so many operations, crashed behind every step in every way."""
    first, step = map(int, part.split("/"))
    states = 0
    lives = [*product(OPERATIONS, repeat=operations)][first - 1 :: step]
    with click.progressbar(lives, label="lives") as progress:
        for number, names in enumerate(progress):
            with tempfile.TemporaryDirectory() as directory:
                states += asyncio.run(_short_life(Path(directory), number, names))
    click.echo(f"{states:,} crash states of {len(lives):,} lives, no violation")


async def _live(directory: Path, seed: int, flush: str, deadline: float) -> int:
    states = 0
    crashes = explore(directory, seed=seed, flush=flush, operations=OPERATIONS_PER_LIFE, crashes=CRASHES_PER_LIFE)
    async for _ in crashes:
        states += 1
        if time.monotonic() >= deadline:
            break
    return states


async def _short_life(directory: Path, seed: int, operations: tuple[str, ...]) -> int:
    return len([crash async for crash in explore(directory, seed=seed, flush="ack", operations=operations)])


if __name__ == "__main__":
    main()
