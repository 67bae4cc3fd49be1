"""`python -m tests.faults`: the long forms of fault tests, for a given time and from a seed that repeats them."""

import asyncio
import logging
import shutil
import tempfile
import time
from collections.abc import Callable
from itertools import count, product
from pathlib import Path
from typing import Final

import click

from tests.faults.bit_rot import flipping
from tests.faults.disk_trouble import lives as troubled_lives
from tests.faults.hostile.byte_fuzz import fuzz_bytes
from tests.faults.hostile.flooding import Flood, flood
from tests.faults.hostile.fuzzing import fuzz
from tests.faults.kills import lives as killed_lives
from tests.faults.power_loss.exploring import explore
from tests.faults.power_loss.workload import OPERATIONS
from tests.faults.queues import power_loss as queue_power_loss
from tests.faults.queues import rounds
from tests.faults.soak.running import soak

CRASHES_PER_LIFE = 400
OPERATIONS_PER_LIFE = 80
SHORT_LIFE = 3
REPORT_S = 10
FLOOD_CONNECTIONS = 10_000

# Returns a summary, or raises an AssertionError that says how to reproduce the violation.
Form = Callable[[Path, int, float], str]


def _power_loss(directory: Path, seed: int, deadline: float) -> str:
    lives = states = 0
    reported = time.monotonic()
    for number, flush in ((number, flush) for number in count(seed) for flush in ("ack", "os")):
        if time.monotonic() >= deadline:
            break
        with tempfile.TemporaryDirectory(dir=directory) as home:
            states += asyncio.run(_live(Path(home), number, flush, deadline))
        lives += 1
        if time.monotonic() - reported >= REPORT_S:
            reported = time.monotonic()
            _say(f"{states:,} crash states of {lives:,} lives, seed {number}")
    return f"{states:,} crash states of {lives:,} lives"


def _kills(directory: Path, seed: int, deadline: float) -> str:
    done = killed_lives.run(directory, seed=seed, deadline=deadline)
    return f"{done.kills:,} kills in {done.lives:,} lives"


def _disk_trouble(directory: Path, seed: int, deadline: float) -> str:
    done = troubled_lives.run(directory, seed=seed, deadline=deadline)
    return f"{done.troubles:,} troubles in {done.lives:,} lives"


def _bit_rot(directory: Path, seed: int, deadline: float) -> str:
    return f"{asyncio.run(flipping.run(directory, seed=seed, deadline=deadline)):,} damaged files"


def _flood(directory: Path, _seed: int, deadline: float) -> str:
    floods: list[Flood] = []
    while not floods or time.monotonic() < deadline:
        with tempfile.TemporaryDirectory(dir=directory) as home:
            floods.append(flood(Path(home), FLOOD_CONNECTIONS))
    largest = max(each.bytes_per_connection for each in floods)
    on_the_side = sum(each.rounds_on_the_side for each in floods)
    return (
        f"{len(floods):,} floods of {FLOOD_CONNECTIONS:,} idle connections, up to {largest:,} bytes each; "
        f"{on_the_side:,} records written and read on the side"
    )


def _fuzz(directory: Path, seed: int, deadline: float) -> str:
    done = fuzz(seed, deadline)
    return (
        f"{done.decoded:,} frames decoded or refused; of those sent {done.answered:,} answered, {done.closed:,} closed"
    )


def _fuzz_bytes(directory: Path, seed: int, deadline: float) -> str:
    return f"{fuzz_bytes(seed, deadline):,} inputs"


def _queues(directory: Path, seed: int, deadline: float) -> str:
    done = rounds.run(directory, seed, deadline)
    return (
        f"{done.faults:,} faults in {done.rounds:,} rounds, with {done.settlements:,} acknowledgements and "
        f"{done.scheduled:,} delayed records"
    )


def _queue_power_loss(directory: Path, seed: int, deadline: float) -> str:
    lives = states = 0
    while not lives or time.monotonic() < deadline:
        with tempfile.TemporaryDirectory(dir=directory) as home:
            states += asyncio.run(_queue_life(Path(home), seed + lives))
        lives += 1
    return f"{states:,} crash states of {lives:,} lives"


def _soak(directory: Path, seed: int, deadline: float) -> str:
    done = soak(directory, (deadline - time.monotonic()) / 60, seed, _say)
    assert not done.violations, "\n".join([*done.violations, f"seed {seed}, round {done.rounds}, see {directory}"])
    return str(done)


FORMS: Final[dict[str, Form]] = {
    "power-loss": _power_loss,
    "kills": _kills,
    "disk-trouble": _disk_trouble,
    "bit-rot": _bit_rot,
    "flood": _flood,
    "fuzz": _fuzz,
    "fuzz-bytes": _fuzz_bytes,
    "queues": _queues,
    "queue-power-loss": _queue_power_loss,
    "soak": _soak,
}
# fuzz-bytes needs atheris, which is not a development dependency.
USUAL: Final = tuple(name for name in FORMS if name != "fuzz-bytes")


@click.group()
def main() -> None:
    """Long fault tests. Each ends with what it did, and at the first violation with how to see it again."""


@main.command()
@click.argument("names", nargs=-1, metavar="[FORM]...", type=click.Choice([*FORMS]))
@click.option("--minutes", type=float, default=30.0, show_default=True, help="Of each form.")
@click.option("--seed", type=int, default=1, show_default=True)
def run(names: tuple[str, ...], minutes: float, seed: int) -> None:
    """Run these forms one after the other: power-loss, kills, disk-trouble, bit-rot, flood, fuzz, fuzz-bytes (needs
    atheris), queues, queue-power-loss, soak. All but fuzz-bytes, if none is named."""
    for name in names or USUAL:
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        _say(f"{name}: {minutes:g} minutes from seed {seed} in {directory}")
        if name in ("power-loss", "queue-power-loss", "disk-trouble"):
            # Brokers log all damage that they find, and these runs consist of damage.
            logging.disable(logging.CRITICAL)
        done = FORMS[name](directory, seed, time.monotonic() + minutes * 60)
        logging.disable(logging.NOTSET)
        shutil.rmtree(directory)
        click.echo(f"{name}: {done}, from seed {seed}, no violation")


@main.command()
@click.option("--operations", type=click.IntRange(1, 4), default=SHORT_LIFE, show_default=True, help="In each life.")
@click.option("--part", default="1/1", show_default=True, metavar="N/M", help="Every M-th life, from the N-th.")
def short_lives(operations: int, part: str) -> None:
    """All lives of this many operations, each crashed after every step in every way."""
    logging.disable(logging.CRITICAL)
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


async def _queue_life(directory: Path, seed: int) -> int:
    crashes = queue_power_loss.explore(directory, seed=seed, operations=OPERATIONS_PER_LIFE, crashes=CRASHES_PER_LIFE)
    return len([step async for step in crashes])


async def _short_life(directory: Path, seed: int, operations: tuple[str, ...]) -> int:
    return len([crash async for crash in explore(directory, seed=seed, flush="ack", operations=operations)])


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
