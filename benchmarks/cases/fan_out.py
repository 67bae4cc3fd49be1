"""Fan-out: many consumer groups read the same topic at once, each all of it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.cases import bulk
from benchmarks.cases.bulk import PARTITIONS, Workload
from benchmarks.cases.plain_sockets import FETCH_BYTES, TOPIC, fill
from benchmarks.clients import run
from benchmarks.figures import Case, Figure
from benchmarks.loads import bulk as plain
from benchmarks.loads import librdkafka
from benchmarks.loads.rebalance import find_coordinator
from benchmarks.scale import Scale
from benchmarks.systems import System

# The topic's share of the bytes of a bulk case, because each group reads all of it.
HELD_SHARE = 4


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    held_bytes = scale.bulk_bytes // HELD_SHARE
    workload = Workload("fan-out")
    records = workload.records(scale) // HELD_SHARE
    with system.start(directory, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        bulk.prepare(system, broker, scale)
        bulk.produce(system, broker, workload, scale)
        load = partial(
            librdkafka.consume,
            address=broker.address,
            topic=workload.topic,
            partitions=workload.partitions,
            records=records,
            record_bytes=workload.record_bytes,
        )
        names = [f"group-{number}" for number in range(scale.fan_out)]
        find_coordinator(broker.address, names)
        groups = [partial(load, group=name) for name in names]
        yield from bulk.figures(run(broker, *groups), f"{scale.fan_out} groups")

        fill(system, broker, held_bytes)
        fetch = partial(plain.fetch, address=broker.address, topic=TOPIC, bytes_wanted=held_bytes)
        sockets = [partial(fetch, bytes_per_fetch=FETCH_BYTES)] * scale.fan_out
        yield from bulk.figures(run(broker, *sockets), f"{scale.fan_out} plain sockets")


FAN_OUT = Case(
    "fan-out",
    f"10 groups of one librdkafka consumer each read one topic ({PARTITIONS} partitions, 1 KiB records) at once; then "
    "as many plain sockets, which cost next to nothing themselves",
    _measure,
    {"group.initial.rebalance.delay.ms": "0"},
)
