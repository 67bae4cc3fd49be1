"""All cases, and the order in which rounds run: every case and system once per round, so that other load of the
machine affects all of them alike.
"""

import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.cases.access import ACCESS
from benchmarks.cases.acks import ACKS
from benchmarks.cases.catch_up import CATCH_UP
from benchmarks.cases.codecs import CODECS
from benchmarks.cases.cold_read import COLD_READ
from benchmarks.cases.delays import DELAYS, DELAYS_PENDING
from benchmarks.cases.disk import DISK
from benchmarks.cases.fan_out import FAN_OUT
from benchmarks.cases.floor import FLOOR
from benchmarks.cases.flush import FLUSH
from benchmarks.cases.groups import GROUP_RELOAD, OFFSET_COMMIT
from benchmarks.cases.java_tools import JAVA_CONSUME, JAVA_LATENCY, JAVA_PRODUCE
from benchmarks.cases.latency import (
    LATENCY_BESIDE_BULK,
    LATENCY_BESIDE_LARGE_BATCHES,
    LATENCY_LIBRDKAFKA,
    LATENCY_RAW,
)
from benchmarks.cases.memory import MEMORY
from benchmarks.cases.partitions import PARTITIONS
from benchmarks.cases.peers import PEERS
from benchmarks.cases.plain_sockets import FETCH_RAW, PRODUCE_DISK, PRODUCE_RAW
from benchmarks.cases.queues import QUEUES
from benchmarks.cases.rebalance import REBALANCE_CLASSIC, REBALANCE_CONSUMER, REBALANCE_LIBRDKAFKA
from benchmarks.cases.requests import REQUESTS_ACK, REQUESTS_AT_RATE, REQUESTS_OS
from benchmarks.cases.sizes import SIZES
from benchmarks.cases.spark import SPARK_FLOOR, SPARK_READ, SPARK_WRITE
from benchmarks.cases.startup import RECOVERY, START, START_PARTITIONS
from benchmarks.cases.tls import TLS_BULK, TLS_HANDSHAKES, TLS_MEMORY, TLS_REQUESTS
from benchmarks.cases.transactions import FETCH_COMMITTED, PRODUCE_TRANSACTIONS
from benchmarks.figures import Case, Series
from benchmarks.goals import GOALS
from benchmarks.scale import QUICK, SMOKE, Scale
from benchmarks.systems import HEADWATER, System
from benchmarks.work import WORK

CASES = (
    SIZES,
    PARTITIONS,
    CODECS,
    ACKS,
    PRODUCE_RAW,
    PRODUCE_DISK,
    FETCH_RAW,
    FAN_OUT,
    CATCH_UP,
    COLD_READ,
    REQUESTS_OS,
    REQUESTS_ACK,
    REQUESTS_AT_RATE,
    FLUSH,
    LATENCY_RAW,
    LATENCY_LIBRDKAFKA,
    LATENCY_BESIDE_BULK,
    LATENCY_BESIDE_LARGE_BATCHES,
    JAVA_PRODUCE,
    JAVA_CONSUME,
    JAVA_LATENCY,
    MEMORY,
    DISK,
    START,
    START_PARTITIONS,
    RECOVERY,
    REBALANCE_CLASSIC,
    REBALANCE_CONSUMER,
    REBALANCE_LIBRDKAFKA,
    GROUP_RELOAD,
    OFFSET_COMMIT,
    FETCH_COMMITTED,
    PRODUCE_TRANSACTIONS,
    TLS_BULK,
    TLS_REQUESTS,
    TLS_HANDSHAKES,
    TLS_MEMORY,
    ACCESS,
    DELAYS,
    DELAYS_PENDING,
    SPARK_READ,
    SPARK_WRITE,
    SPARK_FLOOR,
    PEERS,
    QUEUES,
    FLOOR,
)
# The default cases of a quick run: one of each kind, in ten minutes.
QUICK_CASES = (SIZES, REQUESTS_OS, LATENCY_LIBRDKAFKA, MEMORY, START)
# Spare disk space beyond the data of one case, because deleted files may take a moment to be freed.
DISK_RESERVE_BYTES = 2 * 1024**3
# The most that one case holds at a time, in bytes of a bulk load: the cases of partitions and transactions.
BULK_LOADS_MAX = 6


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that failed on a system: its earlier rounds count, and it is not tried again."""

    case: str
    system: str
    round: int
    reason: str
    details: str


def select(patterns: Sequence[str], scale: Scale) -> list[Case]:
    """The cases whose names match one of the patterns; without any, those of the scale."""
    if not patterns:
        return list(QUICK_CASES if scale.name == QUICK.name else CASES)
    for pattern in patterns:
        if not any(fnmatchcase(case.name, pattern) for case in CASES):
            raise LookupError(f"--case {pattern}: the cases are {', '.join(case.name for case in CASES)}")
    return [case for case in CASES if any(fnmatchcase(case.name, pattern) for pattern in patterns)]


def available(cases: Sequence[Case]) -> tuple[list[Case], dict[str, str]]:
    """The systems that can be measured here, and the reasons for the others by name."""
    reasons = {case.name: case.missing() for case in cases}
    return [case for case in cases if not reasons[case.name]], {name: why for name, why in reasons.items() if why}


def measure(
    cases: Sequence[Case], systems: Sequence[System], scale: Scale, progress: Callable[[str], None]
) -> tuple[list[Series], list[Failure]]:
    _check_disk(scale)
    for system in systems if scale.name != SMOKE.name else ():
        # The first start of all fills caches, and is not measured.
        with tempfile.TemporaryDirectory(dir=WORK) as directory, system.start(Path(directory)):
            pass
    series: dict[tuple[str, str, str], Series] = {}
    failures: dict[tuple[str, str], Failure] = {}
    for number, case, system in _turns(cases, systems, scale.rounds):
        if (case.name, system.name) in failures:
            continue
        progress(f"round {number}/{scale.rounds}  {case.name}  {system.name}")
        try:
            with tempfile.TemporaryDirectory(dir=WORK, prefix=f"{case.name}-") as directory:
                figures = list(case.measure(system, Path(directory), scale))
        except Exception as error:
            # A failure must not lose the results of other cases, which may have taken an hour.
            reason = f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error).strip() else ''}"
            failure = Failure(case.name, system.name, number, reason, traceback.format_exc())
            failures[case.name, system.name] = failure
            progress(f"FAILED: {failure.details}")
            continue
        for figure in figures:
            key = case.name, figure.name, system.name
            if key not in series:
                goal = GOALS.get(key[:2]) if system.name == HEADWATER.name else None
                series[key] = Series(case.name, system.name, goal)
            series[key].figures.append(figure)
    return list(series.values()), list(failures.values())


def _turns(cases: Sequence[Case], systems: Sequence[System], rounds: int) -> Iterator[tuple[int, Case, System]]:
    """A B A B: a case runs on all systems before the next, and all cases run before the next round."""
    for number in range(1, rounds + 1):
        for case in cases:
            for system in systems:
                if case.is_for(system):
                    yield number, case, system


def _check_disk(scale: Scale) -> None:
    WORK.mkdir(exist_ok=True)
    needed = max(BULK_LOADS_MAX * scale.bulk_bytes, scale.retained_bytes, scale.recovered_bytes) + DISK_RESERVE_BYTES
    if shutil.disk_usage(WORK).free < needed:
        raise RuntimeError(f"{WORK} needs {needed / 1e9:.0f} GB of free disk")
