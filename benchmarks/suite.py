"""All cases, and the order in which rounds run: every case and system once per round, so that what the machine does
meanwhile falls on all of them alike.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.cases.fetch import FETCH, FETCH_RAW
from benchmarks.cases.floor import FLOOR
from benchmarks.cases.groups import GROUP_RELOAD, OFFSET_COMMIT
from benchmarks.cases.latency import LATENCY_LIBRDKAFKA, LATENCY_RAW
from benchmarks.cases.memory import MEMORY
from benchmarks.cases.produce import PRODUCE_1K, PRODUCE_100, PRODUCE_DISK, PRODUCE_RAW
from benchmarks.cases.rebalance import REBALANCE_CLASSIC, REBALANCE_CONSUMER, REBALANCE_LIBRDKAFKA
from benchmarks.cases.requests import REQUESTS_ACK, REQUESTS_OS
from benchmarks.cases.spark import SPARK_FLOOR, SPARK_READ, SPARK_WRITE
from benchmarks.cases.startup import RECOVERY, START
from benchmarks.cases.transactions import FETCH_COMMITTED, PRODUCE_TRANSACTIONS
from benchmarks.figures import Case, Series
from benchmarks.goals import GOALS
from benchmarks.scale import Scale
from benchmarks.systems import WORK, System

CASES = (
    PRODUCE_1K,
    PRODUCE_100,
    PRODUCE_RAW,
    PRODUCE_DISK,
    FETCH,
    FETCH_RAW,
    REQUESTS_OS,
    REQUESTS_ACK,
    LATENCY_RAW,
    LATENCY_LIBRDKAFKA,
    MEMORY,
    START,
    RECOVERY,
    REBALANCE_CLASSIC,
    REBALANCE_CONSUMER,
    REBALANCE_LIBRDKAFKA,
    GROUP_RELOAD,
    OFFSET_COMMIT,
    FETCH_COMMITTED,
    PRODUCE_TRANSACTIONS,
    SPARK_READ,
    SPARK_WRITE,
    SPARK_FLOOR,
    FLOOR,
)
# Beyond the data of one case: what is deleted may take a moment to be free.
DISK_RESERVE_BYTES = 2 * 1024**3


def measure(
    cases: Sequence[Case], systems: Sequence[System], scale: Scale, progress: Callable[[str], None]
) -> list[Series]:
    WORK.mkdir(exist_ok=True)
    needed = max(scale.bulk_bytes, scale.retained_bytes) + DISK_RESERVE_BYTES
    if shutil.disk_usage(WORK).free < needed:
        raise RuntimeError(f"{WORK} needs {needed / 1e9:.0f} GB of free disk")
    for system in systems:
        # The first start of all fills caches, and is not measured.
        with tempfile.TemporaryDirectory(dir=WORK) as directory, system.start(Path(directory)):
            pass
    series: dict[tuple[str, str, str], Series] = {}
    for number in range(1, scale.rounds + 1):
        for case in cases:
            for system in systems:
                progress(f"round {number}/{scale.rounds}  {case.name}  {system.name}")
                with tempfile.TemporaryDirectory(dir=WORK, prefix=f"{case.name}-") as directory:
                    for figure in case.measure(system, Path(directory), scale):
                        key = case.name, figure.name, system.name
                        if key not in series:
                            series[key] = Series(case.name, system.name, GOALS.get(key[:2]))
                        series[key].figures.append(figure)
    return list(series.values())
