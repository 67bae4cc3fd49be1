"""The matrix of clients by version: which are tried, what each is asked to do, and what it cannot do.

Versions are exact, so that two runs try the same. To add one, add a line here, or raise the number in `go/go.mod`,
`rust/Cargo.toml` or `node/package.json`, from which the versions of those clients are read.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent

Language = Literal["java", "python", "go", "rust", "node", "spark"]

BASIC = ("create", "produce", "consume", "group", "admin", "delete")
TRANSACTIONAL = ("create", "produce", "consume", "group", "transaction", "admin", "delete")
NEXT_GENERATION = ("create", "produce", "consume", "group", "consumer-protocol", "transaction", "admin", "delete")
NO_GROUPS = ("create", "produce", "consume", "delete")
SPARK = ("batch-write", "batch-read", "stream")

# What each step is, for readers of the page.
STEPS = {
    "create": "an administrator creates a topic with two partitions and finds it in the metadata",
    "produce": "100 records are acknowledged (`acks=all`), in every codec that the client brings, idempotent if it can",
    "consume": "all of them are read by assigned partitions",
    "group": "a member of a group reads them and commits; the committed offsets are read back",
    "consumer-protocol": "the same in the next-generation protocol of groups (KIP-848)",
    "transaction": "one transaction is aborted and one is committed; `read_committed` shows the second only",
    "admin": "a setting of the topic is changed and read back, a partition is added, the group is listed and described",
    "delete": "the topic is deleted",
    "batch-write": '`df.write.format("kafka")` creates a topic and writes 100 rows',
    "batch-read": '`spark.read.format("kafka")` reads them, with both kinds of end',
    "stream": "a streaming query copies the topic into another",
}


@dataclass(frozen=True, slots=True)
class Entry:
    client: str
    version: str
    language: Language
    # The program: a module of `programs`, a directory of `go`, or the only one of its language.
    program: str
    steps: tuple[str, ...]
    # Also tried by `make interop`.
    is_quick: bool = False
    # Further packages of that version, for clients whose own declaration would fetch one that they cannot use.
    requirements: tuple[str, ...] = ()
    # There is no wheel for Python 3.11: it is compiled, against librdkafka of its own version.
    is_compiled: bool = False

    @property
    def slug(self) -> str:
        return f"{self.program}-{self.version}"


def _java(version: str, steps: tuple[str, ...] = TRANSACTIONAL, *, is_quick: bool = False) -> Entry:
    return Entry("Java kafka-clients", version, "java", "java", steps, is_quick)


def _confluent(
    version: str, steps: tuple[str, ...] = TRANSACTIONAL, *, is_quick: bool = False, is_compiled: bool = False
) -> Entry:
    client = "confluent-kafka (librdkafka)"
    return Entry(client, version, "python", "confluent", steps, is_quick, is_compiled=is_compiled)


def _kafka_python(version: str, steps: tuple[str, ...] = TRANSACTIONAL, *, is_quick: bool = False) -> Entry:
    return Entry("kafka-python", version, "python", "kafka_python", steps, is_quick)


def _aiokafka(version: str, *requirements: str, is_quick: bool = False) -> Entry:
    return Entry("aiokafka", version, "python", "aio", TRANSACTIONAL, is_quick, requirements)


def _go_version(module: str) -> str:
    found = re.search(rf"{re.escape(module)} v(\S+)", (HERE / "go" / "go.mod").read_text())
    assert found is not None, f"go.mod does not require {module}"
    return found[1]


def _rust_version(crate: str) -> str:
    found = re.search(rf'^{re.escape(crate)} = "=(\S+)"$', (HERE / "rust" / "Cargo.toml").read_text(), re.MULTILINE)
    assert found is not None, f"Cargo.toml does not require {crate} in one version"
    return found[1]


def _node_version(package: str) -> str:
    return json.loads((HERE / "node" / "package.json").read_text())["dependencies"][package]


MATRIX = (
    _java("2.8.2"),
    _java("3.0.2"),
    _java("3.1.2"),
    _java("3.2.3"),
    _java("3.3.2"),
    # 3.3 to 3.7 are strict about the features that a broker names (KAFKA-17011); Spark 3.5 and Flink ship them.
    _java("3.4.1", is_quick=True),
    _java("3.5.2"),
    _java("3.6.2"),
    _java("3.7.2", is_quick=True),
    _java("3.8.1"),
    _java("3.9.2"),
    _java("4.0.2", NEXT_GENERATION),
    _java("4.1.2", NEXT_GENERATION),
    _java("4.2.2", NEXT_GENERATION),
    _java("4.3.1", NEXT_GENERATION),
    _java("4.4.0", NEXT_GENERATION, is_quick=True),
    _confluent("1.9.2", is_compiled=True),
    _confluent("2.0.2"),
    _confluent("2.1.1"),
    _confluent("2.2.0"),
    _confluent("2.3.0"),
    _confluent("2.4.0"),
    _confluent("2.5.3"),
    _confluent("2.6.2"),
    _confluent("2.7.0"),
    _confluent("2.8.2"),
    _confluent("2.9.0"),
    _confluent("2.10.1"),
    _confluent("2.11.1"),
    _confluent("2.12.2", NEXT_GENERATION),
    _confluent("2.13.2", NEXT_GENERATION),
    _confluent("2.14.2", NEXT_GENERATION),
    _confluent("2.15.1", NEXT_GENERATION),
    _confluent("2.16.1", NEXT_GENERATION, is_quick=True),
    _kafka_python("2.0.2", BASIC),
    _kafka_python("2.0.6", BASIC),
    _kafka_python("2.1.6", BASIC),
    _kafka_python("2.2.21"),
    _kafka_python("2.3.3"),
    _kafka_python("3.0.12", is_quick=True),
    # It takes its parser from kafka-python, whose later versions moved it.
    _aiokafka("0.8.1", "kafka-python==2.0.2"),
    _aiokafka("0.9.0"),
    _aiokafka("0.10.0"),
    _aiokafka("0.11.0"),
    _aiokafka("0.12.0"),
    _aiokafka("0.13.0"),
    _aiokafka("0.14.0", is_quick=True),
    Entry("franz-go", _go_version("github.com/twmb/franz-go"), "go", "franz", NEXT_GENERATION, is_quick=True),
    Entry("sarama", _go_version("github.com/IBM/sarama"), "go", "sarama", TRANSACTIONAL, is_quick=True),
    Entry("kafka-go", _go_version("github.com/segmentio/kafka-go"), "go", "kafkago", BASIC, is_quick=True),
    Entry("rskafka", _rust_version("rskafka"), "rust", "rskafka", NO_GROUPS, is_quick=True),
    Entry("kafkajs", _node_version("kafkajs"), "node", "kafkajs", TRANSACTIONAL, is_quick=True),
    Entry("Spark's Kafka connector", "3.5.7", "spark", "spark", SPARK),
    Entry("Spark's Kafka connector", "4.2.0", "spark", "spark", SPARK),
)

# What the table cannot say.
NOTES = (
    "A client is not asked for what it has no API for: rskafka has neither groups nor transactions and changes no "
    "settings, kafka-go has no transactional producer, kafka-python has none before 2.2, and the consumer protocol "
    "(KIP-848) is generally available in Java from 4.0 on and in librdkafka from 2.12 on.\n"
    "kafkajs reads in groups only, so its `consume` is a group of its own.\n"
    "kafka-go and rskafka have no idempotent producer, nor has kafka-python before 2.2.\n"
    "Python clients run in environments of their own, with the Python of this project. For confluent-kafka "
    "1.9 there is no wheel: it is compiled, against librdkafka of the same version.\n"
    "The connector of Spark 3.5 runs in PySpark 3.5; that of Spark 4 runs in this project's PySpark, "
    "which is newer than the newest connector that was found.\n"
    "Kafka Connect in distributed mode, with an exactly-once source, and MirrorMaker 2, from Headwater and from Kafka, "
    "are tested by `make interop`."
).splitlines()
