"""What the matrix's programs in Python share: the standard library only, because each runs in its client's environment.

A program's arguments are the bootstrap servers, a name that is used for the topic, the group and the transactional id,
and the steps to try. It prints one line per step: its name, a tab, and `ok` or what went wrong.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping

RECORDS = 100
PARTITIONS = 2
RETENTION_MS = "123456789"
COMMITTED = "committed"
ABORTED = "aborted"
TIMEOUT_S = 30

VALUES = [f"value-{number}" for number in range(RECORDS)]

Steps = Mapping[str, Callable[[], None]]


def run(program: Callable[[str, str], Steps]) -> None:
    bootstrap_servers, name, *chosen = sys.argv[1:]
    steps = program(bootstrap_servers, name)
    for step in chosen:
        try:
            steps[step]()
            outcome = "ok"
        except Exception as problem:
            outcome = " ".join(f"{type(problem).__name__}: {problem}".split())
        sys.stdout.write(f"{step}\t{outcome}\n")
        sys.stdout.flush()


def shares(codecs: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The values that each codec compresses."""
    names = list(codecs)
    return [(codec, VALUES[index :: len(names)]) for index, codec in enumerate(names)]


def read(poll: Callable[[], Iterable[str]], expected: Iterable[str]) -> None:
    """Poll until as many values were read as are expected, and check that they are these."""
    wanted, values = sorted(expected), list[str]()
    deadline = time.monotonic() + TIMEOUT_S
    while len(values) < len(wanted) and time.monotonic() < deadline:
        values += poll()
    check(sorted(values) == wanted, f"{len(values)} records were read instead of {len(wanted)}, or others")


def check(holds: bool, problem: str) -> None:
    if not holds:
        raise AssertionError(problem)
