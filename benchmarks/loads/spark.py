"""One Spark session that reads and writes the same topics through our data source and through Spark's own connector.

Law: connectors take turns on one session, whose Java gets faster the longer it runs, and each is warmed up first.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import Producer

from benchmarks.loads.librdkafka import DEADLINE_S, PRODUCER
from benchmarks.processes import family_cpu_seconds
from headwater.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

T = TypeVar("T")

OURS, THEIRS, READY = "headwater", "kafka", "ready"
CALL_RECORDS = 5000
KEYS = 1000
# The number of micro-batches over which a stream's input is spread.
STREAM_BATCHES = 4
FLOOR_BATCHES, FLOOR_BATCH_RECORDS = 20, 10
# The size of the batches that our connector yields.
READY_BATCH_ROWS, READY_BATCH_BYTES = 32_768, 2 * 1024 * 1024
QUERY_TIMEOUT_S = 300
START_ATTEMPTS = 5
_REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Pass:
    """`cpu_s` is that of every process of Spark: Java and the Python workers, not the broker."""

    rows: int
    seconds: float
    cpu_s: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def cpu_microseconds_per_row(self) -> float:
        return self.cpu_s / self.rows * 1e6


Passes = Mapping[str, Sequence[Pass]]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    rows: int
    value_bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Each connector takes `turns` that count, after `warm_ups` that do not. Without its archives there is no peer."""

    archives: Sequence[str]
    warm_ups: int
    turns: int

    @property
    def connectors(self) -> Sequence[str]:
        return (THEIRS, OURS) if self.archives else (OURS,)


def fill(ready: Callable[[], None], address: str, topic: Topic) -> None:
    """Records with keys and with values that no two neighbours share."""
    producer = Producer({"bootstrap.servers": address, **PRODUCER, "partitioner": "murmur2_random"})
    producer.list_topics(topic.name, timeout=10)
    values = [os.urandom(topic.value_bytes) for _ in range(100)]
    messages = [{"key": b"%08d" % (n % KEYS), "value": values[n % len(values)]} for n in range(CALL_RECORDS)]
    ready()
    deadline = time.perf_counter() + DEADLINE_S
    queued = 0
    while queued < topic.rows:
        accepted = producer.produce_batch(topic.name, messages[: topic.rows - queued])
        queued += accepted
        producer.poll(0 if accepted else 0.001)
        if time.perf_counter() > deadline:
            raise TimeoutError("the producer's queue stays full")
    if producer.flush(DEADLINE_S):
        raise TimeoutError("not all records were acknowledged")


def read(ready: Callable[[], None], address: str, plan: Plan, topics: Sequence[Topic]) -> Mapping[str, Passes]:
    ready()
    measured: dict[str, Passes] = {}
    with _session(plan) as spark:
        for topic in topics:
            options = {"kafka.bootstrap.servers": address, "subscribe": topic.name}
            batches = {name: partial(_read_batch, spark, name, options, topic) for name in plan.connectors}
            batches[READY] = partial(_read_ready, spark, topic)
            measured[f"batch, {topic.value_bytes} B"] = _take_turns(plan, batches)
            streams = {name: partial(_read_stream, spark, name, options, topic) for name in plan.connectors}
            measured[f"streaming, {topic.value_bytes} B"] = _take_turns(plan, streams)
    return measured


def write(ready: Callable[[], None], address: str, plan: Plan, rows: int, topic: str) -> Mapping[str, Passes]:
    ready()
    measured: dict[str, Passes] = {}
    with _session(plan) as spark:
        for kind in ("without headers", "with headers"):
            frame = _rows(spark, rows, has_headers=kind == "with headers")
            options = {"kafka.bootstrap.servers": address, "topic": topic, "includeHeaders": "true"}
            sinks = {name: partial(_write_batch, frame, name, options, rows) for name in plan.connectors}
            measured[kind] = _take_turns(plan, sinks)
    return measured


def floor(ready: Callable[[], None], address: str, plan: Plan, topic: Topic) -> Mapping[str, float]:
    """Milliseconds from the start of a micro-batch of a few records to its end, by connector."""
    ready()
    with _session(plan) as spark:
        options = {"kafka.bootstrap.servers": address, "subscribe": topic.name}
        floors: dict[str, list[float]] = {name: [] for name in plan.connectors}
        for number in range(plan.warm_ups + plan.turns):
            for name, found in floors.items():
                query = _patiently(partial(_stream, spark, name, options, FLOOR_BATCH_RECORDS))
                # The first of all plans the query and starts its processes.
                if number >= plan.warm_ups:
                    found += _batch_milliseconds(query)[1:]
    return {name: median(found) for name, found in floors.items()}


def _take_turns(plan: Plan, loads: Mapping[str, Callable[[], Pass]]) -> Passes:
    passes: dict[str, list[Pass]] = {name: [] for name in loads}
    order = list(loads)
    for number in range(plan.warm_ups + plan.turns):
        for name in order:
            measured = _patiently(loads[name])
            if number >= plan.warm_ups:
                passes[name].append(measured)
        # The order changes, so that no connector always follows the same other one.
        order.reverse()
    return passes


def _patiently(load: Callable[[], T]) -> T:
    """Retry: on a busy machine a Python process may take longer to start than the ten seconds that Spark allows."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415

    for _ in range(START_ATTEMPTS - 1):
        try:
            return load()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
    return load()


def _read_batch(spark: "SparkSession", connector: str, options: Mapping[str, str], topic: Topic) -> Pass:
    frame = spark.read.format(connector).options(**options).load()
    return _timed(topic.rows, lambda: _discard(frame))


def _read_ready(spark: "SparkSession", topic: Topic) -> Pass:
    options = {
        "partitions": str(topic.partitions),
        "rows": str(topic.rows // topic.partitions),
        "batchRows": str(min(READY_BATCH_ROWS, READY_BATCH_BYTES // topic.value_bytes)),
        "valueBytes": str(topic.value_bytes),
    }
    frame = spark.read.format(READY).options(**options).load()
    return _timed(topic.rows, lambda: _discard(frame))


def _discard(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def _read_stream(spark: "SparkSession", connector: str, options: Mapping[str, str], topic: Topic) -> Pass:
    before_s = _cpu_seconds()
    query = _stream(spark, connector, options, -(-topic.rows // STREAM_BATCHES))
    cpu_s = _cpu_seconds() - before_s
    read = sum(progress.numInputRows for progress in query.recentProgress)
    if read != topic.rows:
        raise RuntimeError(f"{connector} read {read} rows of {topic.rows}")
    return Pass(topic.rows, sum(_batch_milliseconds(query)) / 1000, cpu_s)


def _stream(spark: "SparkSession", connector: str, options: Mapping[str, str], batch_rows: int) -> "StreamingQuery":
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(batch_rows)}
    rows = spark.readStream.format(connector).options(**options, **limits).load()
    checkpoint = tempfile.mkdtemp(prefix="headwater-checkpoint-")
    try:
        sink = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = sink.trigger(availableNow=True).start()
        if not query.awaitTermination(QUERY_TIMEOUT_S):
            query.stop()
            raise TimeoutError(f"a stream of {connector} took longer than {QUERY_TIMEOUT_S} s")
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return query


def _batch_milliseconds(query: "StreamingQuery") -> list[float]:
    return [each.durationMs["triggerExecution"] for each in query.recentProgress if each.numInputRows]


def _rows(spark: "SparkSession", rows: int, *, has_headers: bool) -> "DataFrame":
    columns = [
        f"cast(lpad(cast(id % {KEYS} as string), 8, '0') as binary) as key",
        "cast(lpad(cast(id as string), 100, 'value ') as binary) as value",
    ]
    if has_headers:
        header = "named_struct('key', '{}', 'value', cast(cast(id as string) as binary))"
        columns.append(f"array({header.format('trace')}, {header.format('source')}) as headers")
    return spark.range(rows).selectExpr(*columns)


def _write_batch(frame: "DataFrame", connector: str, options: Mapping[str, str], rows: int) -> Pass:
    return _timed(rows, lambda: frame.write.format(connector).options(**options).mode("append").save())


def _timed(rows: int, work: Callable[[], None]) -> Pass:
    before_s = _cpu_seconds()
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    return Pass(rows, seconds, _cpu_seconds() - before_s)


def _cpu_seconds() -> float:
    return family_cpu_seconds(os.getpid())


@contextmanager
def _session(plan: Plan) -> Generator["SparkSession"]:
    # Needs pyspark, as no other case does.
    from benchmarks.loads.spark_ready import ReadySource  # noqa: PLC0415

    # Workers must find the sources of this benchmark, from wherever it was started.
    os.environ["PYTHONPATH"] = os.pathsep.join(_paths())
    with tempfile.TemporaryDirectory(prefix="headwater-spark-") as directory:
        settings = {"spark.local.dir": directory, "spark.log.level": "ERROR"}
        if plan.archives:
            settings["spark.jars"] = ",".join(plan.archives)
        spark = session("headwater-benchmark", config=settings)
        spark.dataSource.register(ReadySource)
        try:
            yield spark
        finally:
            spark.stop()


def _paths() -> Iterable[str]:
    yield str(_REPOSITORY)
    yield from filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
