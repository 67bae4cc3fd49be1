"""Spark on this broker: `format("headwater")` against Spark's own Kafka connector, in turns in one session.

The result is the ratios, and the CPU time of all of Spark's processes without the broker's.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.clients import run
from benchmarks.figures import Case, Figure
from benchmarks.loads import spark
from benchmarks.loads.spark import OURS, READY, THEIRS, Pass, Plan, Topic
from benchmarks.loads.spark_archives import connector_archives
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import create_topic, record_count

PARTITIONS = 2
# By value size: the topic's share of the bytes of a bulk case.
HELD_SHARE = {100: 5.0, 1024: 2.5}
# The sink writes as many rows as this share of a bulk case has bytes of values of 100 B.
WRITTEN_SHARE = 20
WARM_UPS, TURNS = 2, 3
# Includes the time in which Java starts and compiles its hot code.
TIMEOUT_S = 1800.0
NAMES = {THEIRS: "JVM connector", OURS: "headwater", READY: "ready-made Arrow"}


def _read(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    plan = Plan(connector_archives(), WARM_UPS, TURNS)
    topics = [
        Topic(f"values-{size}", PARTITIONS, int(scale.bulk_bytes / share / size), size)
        for size, share in HELD_SHARE.items()
    ]
    with system.start(directory) as broker:
        for topic in topics:
            create_topic(broker.address, topic.name, topic.partitions, system.topic_settings(Flush.OS))
            run(broker, partial(spark.fill, address=broker.address, topic=topic))
        read = partial(spark.read, address=broker.address, plan=plan, topics=topics)
        (measured,) = run(broker, read, timeout_s=TIMEOUT_S).outcomes
    for name, passes in measured.items():
        yield from _figures(name, passes)


def _write(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    plan = Plan(connector_archives(), WARM_UPS, TURNS)
    rows = scale.bulk_bytes // WRITTEN_SHARE // 100
    with system.start(directory) as broker:
        create_topic(broker.address, "written", PARTITIONS, system.topic_settings(Flush.OS))
        write = partial(spark.write, address=broker.address, plan=plan, rows=rows, topic="written")
        (measured,) = run(broker, write, timeout_s=TIMEOUT_S).outcomes
        # Markers of transactions have offsets too.
        expected = len(measured) * len(plan.connectors) * (WARM_UPS + TURNS) * rows
        if (found := record_count(broker.address, "written", PARTITIONS)) < expected:
            raise RuntimeError(f"{expected} rows were written, and the broker has {found}")
    for name, passes in measured.items():
        yield from _figures(name, passes)


def _floor(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:  # noqa: ARG001 - one size fits all
    plan = Plan(connector_archives(), WARM_UPS, TURNS)
    topic = Topic("few", PARTITIONS, spark.FLOOR_BATCHES * spark.FLOOR_BATCH_RECORDS, 100)
    with system.start(directory) as broker:
        create_topic(broker.address, topic.name, topic.partitions, system.topic_settings(Flush.OS))
        run(broker, partial(spark.fill, address=broker.address, topic=topic))
        floor = partial(spark.floor, address=broker.address, plan=plan, topic=topic)
        (measured,) = run(broker, floor, timeout_s=TIMEOUT_S).outcomes
    for connector, milliseconds in measured.items():
        yield Figure(NAMES[connector], "ms", milliseconds)
    if THEIRS in measured:
        yield Figure("ratio", "times", measured[OURS] / measured[THEIRS])


def _figures(name: str, passes: Mapping[str, Sequence[Pass]]) -> Iterator[Figure]:
    speeds = {each: median(one.rows_per_second for one in found) for each, found in passes.items()}
    costs = {each: median(one.cpu_microseconds_per_row for one in found) for each, found in passes.items()}
    for connector, speed in speeds.items():
        yield Figure(f"{name}: {NAMES[connector]}", "rows/s", speed)
    for connector, cost in costs.items():
        yield Figure(f"{name}: {NAMES[connector]}, CPU", "us/row", cost)
    if THEIRS in speeds:
        yield Figure(f"{name}: rows, ratio", "times", speeds[OURS] / speeds[THEIRS])
        yield Figure(f"{name}: CPU, ratio", "times", costs[OURS] / costs[THEIRS])
    if READY in costs:
        yield Figure(f"{name}: CPU, ratio to {NAMES[READY]}", "times", costs[OURS] / costs[READY])


ONLY = "it compares two connectors of Spark on this broker"

SPARK_READ = Case(
    "spark-read",
    f"Spark reads {PARTITIONS} partitions and discards the rows; streams in {spark.STREAM_BATCHES} micro-batches; "
    "ratios are headwater to the JVM connector",
    _read,
    why_headwater_only=ONLY,
)
SPARK_WRITE = Case(
    "spark-write",
    "Spark writes rows of 100 B that it makes itself in a batch; ours exactly once, the JVM connector at least once",
    _write,
    why_headwater_only=ONLY,
)
SPARK_FLOOR = Case(
    "spark-floor",
    f"a micro-batch of {spark.FLOOR_BATCH_RECORDS} records from its start to its end, the first of a stream left out",
    _floor,
    why_headwater_only=ONLY,
)
