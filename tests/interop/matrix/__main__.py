"""Try the matrix of clients: `python -m tests.interop.matrix [--only TEXT] [--publish]`; exits with 1 if one failed."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.interop.matrix.declaration import MATRIX, Entry
from tests.interop.matrix.page import PAGE, Row, render
from tests.interop.matrix.trial import BROKER_SETTINGS, Result, attempt
from tests.support.broker.processes import BrokerProcess


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.matrix", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="clients and versions that contain this")
    parser.add_argument("--jobs", type=int, default=2, help="clients at a time (2)")
    parser.add_argument("--publish", action="store_true", help=f"write docs/{PAGE.name}; only for the whole matrix")
    options = parser.parse_args()
    chosen = [entry for entry in MATRIX if options.only in f"{entry.client} {entry.version}"]
    if options.publish and options.only:
        parser.error("--publish is for the whole matrix")
    results = _try(chosen, options.jobs)
    if options.publish:
        rows = [Row(each.entry.client, each.entry.version, each.entry.steps, each.outcome) for each in results]
        PAGE.write_text(render(rows))
    failures = sum(result.is_failure for result in results)
    _say(f"{len(results)} clients, {failures} failed")
    return 1 if failures else 0


def _try(entries: Sequence[Entry], jobs: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as directory:
        broker, threads = BrokerProcess(Path(directory) / "data", BROKER_SETTINGS), ThreadPoolExecutor(jobs)
        with broker, threads:
            return list(threads.map(lambda entry: _try_one(entry, broker.bootstrap_servers), entries))


def _try_one(entry: Entry, bootstrap_servers: str) -> Result:
    started = time.monotonic()
    result = attempt(entry, bootstrap_servers, f"matrix-{entry.slug}")
    _say(f"{time.monotonic() - started:5.1f} s  {entry.client} {entry.version}: {result.outcome}")
    return result


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
