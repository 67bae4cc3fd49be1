"""All kinds of clients and faults for a given time, on one broker, in rounds that are each checked as a whole.

A round has topics of its own, which are deleted at its end, so that neither history nor data grows over hours. In the
second half the broker is not restarted, so that leaks would add up.
"""

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.histories.load import SETTINGS
from tests.faults.soak.footprint import Footprint
from tests.faults.soak.round import Round
from tests.support.broker.processes import BrokerProcess

ROUND_S = 75.0
SAY_EACH_S = 10.0

BROKER_SETTINGS = {
    **SETTINGS,
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    # Killed members are removed from their groups within the round.
    "group.consumer.session.timeout.ms": "6000",
}


@dataclass(slots=True)
class Figures:
    seed: int
    rounds: int = 0
    operations: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    # The largest resident size of the idle broker after a round.
    resident_bytes: int = 0
    descriptors: int = 0
    # Of the round that was the last then; its history stays in the directory.
    violations: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        done = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.operations.items()))
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        size = f"{self.resident_bytes >> 20} MiB and {self.descriptors} descriptors at rest"
        return f"{self.rounds} rounds from seed {self.seed}; {done}; faults: {faults}; {size}"


def soak(
    directory: Path, minutes: float, seed: int, say: Callable[[str], None], *, round_s: float = ROUND_S
) -> Figures:
    """Run rounds until the first violation, or until the round in which the time is up has ended."""
    figures = Figures(seed)
    begun = time.monotonic()
    half, end = begun + minutes * 30, begun + minutes * 60
    with BrokerProcess(directory / "data", BROKER_SETTINGS) as broker, _saying(figures, say):
        footprint = Footprint()
        while time.monotonic() < end and not figures.violations:
            number = figures.rounds + 1
            history = directory / f"round-{number}"
            one = Round(broker, history, number, random.Random(f"{seed}-{number}"), figures.faults)
            found = one.run(
                round_s, may_restart=time.monotonic() < half or minutes * 60 <= round_s, operations=figures.operations
            )
            figures.violations += map(str, found)
            figures.violations += footprint.complaints(broker.pid)
            figures.resident_bytes = max(figures.resident_bytes, footprint.resident_bytes)
            figures.descriptors = max(figures.descriptors, footprint.descriptors)
            figures.rounds = number
            if not figures.violations:
                shutil.rmtree(history)
        if not figures.violations and (code := broker.stop()) != 0:
            figures.violations.append(f"the broker stopped with {code}")
    return figures


@contextmanager
def _saying(figures: Figures, say: Callable[[str], None]) -> Generator[None]:
    is_over = threading.Event()

    def report() -> None:
        while not is_over.wait(SAY_EACH_S):
            say(str(figures))

    reporter = threading.Thread(target=report)
    reporter.start()
    try:
        yield
    finally:
        is_over.set()
        reporter.join()
