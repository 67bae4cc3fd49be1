"""Options of Spark's Kafka connector and of ours, each tried with both: the table in docs/spark.md.

`python -m tests.interop.spark_options` writes the table; a test compares it with what it finds.
"""

import logging
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Final, Literal

from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row

from headwater.spark.options import client_settings
from tests.interop import toolchain
from tests.interop.cells import FIRST_MS
from tests.interop.clients.confluent import Confluent
from tests.interop.exchange import Record
from tests.interop.spark_connectors import CONNECTORS, Connector, Connectors
from tests.support.broker.processes import BrokerProcess

PAGE: Final = Path(__file__).parents[2] / "docs" / "spark.md"
BEGIN, END = "<!-- options: begin -->", "<!-- options: end -->"
PARTITIONS, RECORDS = 2, 10
KEPT: Final = {"retention.ms": "-1"}
SINK_ROWS: Final = "key binary, value binary, headers array<struct<key: string, value: binary>>"
_MIDDLE_MS: Final = FIRST_MS + 5_000
_LATER_MS: Final = FIRST_MS + 3_600_000

Kind = Literal["read", "stream", "write"]


@dataclass(frozen=True, slots=True)
class Trial:
    """`orders` in a value stands for the topic that the trial reads or writes."""

    kind: Kind
    option: str
    value: str
    beside: Mapping[str, str] = field(default_factory=dict[str, str])
    # "" is an ordinary topic; "aborted" has records of an aborted transaction, "deleted" lacks its first records.
    topic: str = ""
    # Only our connector knows the option.
    is_ours: bool = False


def _by_partition(first: int, second: int) -> str:
    return f'{{"orders": {{"0": {first}, "1": {second}}}}}'


_LATE: Final = {"startingTimestamp": str(_LATER_MS)}
TRIALS: Final = (
    Trial("read", "subscribe", "orders"),
    Trial("read", "subscribePattern", r"\Qorders\E"),
    Trial("read", "assign", '{"orders": [1]}'),
    Trial("read", "startingOffsets", "earliest"),
    Trial("read", "startingOffsets", "latest"),
    Trial("read", "startingOffsets", _by_partition(5, -2)),
    Trial("read", "endingOffsets", _by_partition(5, -1)),
    Trial("read", "startingTimestamp", str(_MIDDLE_MS)),
    Trial("read", "endingTimestamp", str(_MIDDLE_MS)),
    Trial("read", "startingOffsetsByTimestamp", _by_partition(_MIDDLE_MS, FIRST_MS)),
    Trial("read", "endingOffsetsByTimestamp", _by_partition(_MIDDLE_MS, FIRST_MS)),
    Trial("read", "startingOffsetsByTimestampStrategy", "error", _LATE),
    Trial("read", "startingOffsetsByTimestampStrategy", "latest", _LATE),
    Trial("read", "includeHeaders", "true"),
    Trial("read", "minPartitions", "6"),
    Trial("read", "maxRecordsPerPartition", "3"),
    Trial("read", "failOnDataLoss", "true", {"startingOffsets": _by_partition(0, 0)}, "deleted"),
    Trial("read", "failOnDataLoss", "false", {"startingOffsets": _by_partition(0, 0)}, "deleted"),
    Trial("read", "groupIdPrefix", "mine"),
    Trial("read", "kafka.group.id", "mine"),
    Trial("read", "kafka.isolation.level", "", topic="aborted"),
    Trial("read", "kafka.isolation.level", "read_committed", topic="aborted"),
    Trial("read", "kafka.isolation.level", "read_uncommitted", topic="aborted"),
    Trial("read", "kafkaConsumer.pollTimeoutMs", "60000"),
    Trial("read", "fetchOffset.numRetries", "3"),
    Trial("read", "fetchOffset.retryIntervalMs", "10"),
    Trial("read", "kafka.fetch.max.bytes", "1048576"),
    Trial("read", "kafka.auto.offset.reset", "earliest"),
    Trial("read", "kafka.enable.auto.commit", "true"),
    Trial("read", "kafka.interceptor.classes", "com.example.Audit"),
    Trial("read", "kafka.key.deserializer", "com.example.Text"),
    Trial("read", "kafka.value.deserializer", "com.example.Text"),
    Trial("read", "startingOffset (misspelt)", "latest"),
    Trial("read", "isolation.level", "read_committed", is_ours=True),
    Trial("read", "group.id", "mine", is_ours=True),
    Trial("read", "pushFilters", "true", is_ours=True),
    Trial("read", "timestampOrder", "rising", is_ours=True),
    Trial("read", "key.format", "string", is_ours=True),
    Trial("read", "value.format", "string", is_ours=True),
    Trial("read", "badRecords", "column", {"value.format": "string"}, is_ours=True),
    Trial("stream", "startingOffsets", "earliest"),
    Trial("stream", "endingOffsets", "latest"),
    Trial("stream", "maxOffsetsPerTrigger", "10"),
    Trial("stream", "minOffsetsPerTrigger", "5"),
    Trial("stream", "maxTriggerDelay", "1s", {"minOffsetsPerTrigger": "5"}),
    Trial("write", "topic", "orders"),
    Trial("write", "includeHeaders", "false"),
    Trial("write", "kafka.acks", "1"),
    Trial("write", "kafka.compression.type", "zstd"),
    Trial("write", "kafka.client.id", "mine"),
    Trial("write", "kafka.linger.ms", "5"),
    Trial("write", "kafka.partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
    Trial("write", "kafka.key.serializer", "com.example.Text"),
    Trial("write", "kafka.value.serializer", "com.example.Text"),
    Trial("write", "includeTimestamp", "false", is_ours=True),
    Trial("write", "delivery", "exactly-once", is_ours=True),
    Trial("write", "applicationId", "mine", {"applicationVersion": "1"}, is_ours=True),
    Trial("write", "stagingTimeoutMs", "60000", is_ours=True),
    Trial("write", "compression.type", "zstd", is_ours=True),
    Trial("write", "acks", "1", is_ours=True),
)


class Trials:
    def __init__(self, connectors: Connectors, confluent: Confluent, broker: BrokerProcess, prefix: str) -> None:
        self._connectors = connectors
        self._confluent = confluent
        self._topics = {kind: f"{prefix}-{kind or 'plain'}" for kind in ("", "aborted", "deleted")}
        self._targets = (f"{prefix}-target-{number}" for number in count())
        for topic in self._topics.values():
            confluent.create_topic(topic, PARTITIONS, KEPT)
            for partition in range(PARTITIONS):
                times = [FIRST_MS + 1000 * number for number in range(RECORDS)]
                records = [Record(b"k", b"v", timestamp_ms=time_ms) for time_ms in times]
                confluent.produce(topic, records, partition=partition)
        _abort(broker, self._topics["aborted"])
        confluent.delete_records(self._topics["deleted"], 5)

    def table(self) -> str:
        """Every trial with both connectors."""
        lines = ["| | option | value | Spark's Kafka connector | `headwater` |", "|---|---|---|---|---|"]
        for trial in TRIALS:
            theirs, ours = (self._outcome(trial, connector) for connector in CONNECTORS)
            if trial.is_ours and theirs == self._outcome(_without(trial), "kafka"):
                theirs = "ignores it"
            if ours != "error" and _is_warned_about(trial):
                ours += ", and a warning"
            value = f"`{trial.value}`" if trial.value else "(default)"
            lines.append(f"| {trial.kind} | `{trial.option}` | {value} | {theirs} | {ours} |")
        return "\n".join(lines)

    def _outcome(self, trial: Trial, connector: Connector) -> str:
        topic = next(self._targets) if trial.kind == "write" else self._topics[trial.topic]
        options = {**trial.beside, trial.option.partition(" ")[0]: trial.value}
        # The empty value stands for the default, and is left out.
        given = {name: value.replace("orders", topic) for name, value in options.items() if value}
        try:
            match trial.kind:
                case "read":
                    return _described(self._connectors.read(connector, _with_topic(given, "subscribe", topic)))
                case "stream":
                    rows, query = self._connectors.collect(self._connectors.stream(connector, topic, given))
                    batches = sum(1 for progress in query.recentProgress if progress.numInputRows)
                    return f"{_described(rows)} in {batches} batch{'' if batches == 1 else 'es'}"
                case "write":
                    self._confluent.create_topic(topic, PARTITIONS, KEPT)
                    rows = [(b"%d" % number, b"v", [("h", b"x")]) for number in range(RECORDS)]
                    self._connectors.write(connector, topic, rows, given, SINK_ROWS)
                    return _described(self._connectors.read("headwater", {"subscribe": topic}))
        except (PySparkException, Py4JJavaError):
            return "error"


def _with_topic(given: Mapping[str, str], option: str, topic: str) -> dict[str, str]:
    chosen = {"subscribe", "subscribePattern", "assign"}.intersection(given)
    return dict(given) if chosen else {option: topic, **given}


def _is_warned_about(trial: Trial) -> bool:
    """Whether our connector warns that the option has no effect. Spark's own warns of nothing."""
    warn = client_settings.warn_of_writes if trial.kind == "write" else client_settings.warn_of_reads
    handler = BufferingHandler(100)
    logger = logging.getLogger(client_settings.__name__)
    logger.addHandler(handler)
    try:
        warn({trial.option: ""})
    finally:
        logger.removeHandler(handler)
    return bool(handler.buffer)


def _without(trial: Trial) -> Trial:
    return Trial(trial.kind, trial.option, "", topic=trial.topic)


def _described(rows: list[Row]) -> str:
    headers = sum(bool(row.headers) for row in rows)
    return f"{len(rows)} rows{', with headers' if headers else ''}"


def _abort(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, b"aborted", partition=0)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)


def published() -> str:
    """The table on the page."""
    found = re.search(rf"{BEGIN}\n(.*)\n{END}", PAGE.read_text(), re.DOTALL)
    assert found is not None, f"{PAGE} lacks the table's place"
    return found[1].strip()


def publish(table: str) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with (
            BrokerProcess(directory / "data") as broker,
            Connectors(broker.bootstrap_servers, toolchain.spark_connector(), directory / "spark") as connectors,
        ):
            publish(Trials(connectors, Confluent(broker.bootstrap_servers), broker, "orders").table())


if __name__ == "__main__":
    main()
