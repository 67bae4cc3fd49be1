"""The Java client and franz-go, each inside a small program of ours that does what it is told line by line."""

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.interop.exchange import (
    BEGINNING,
    Acks,
    At,
    Compression,
    FromTime,
    Position,
    Record,
    Refused,
    Replicas,
    Setting,
    Start,
    Topic,
    topic_id,
)


class Program:
    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the client program ended while it did {command['do']!r}"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer

    def close(self) -> None:
        # The end of its input ends it.
        self._process.communicate()


class ProgramClient:
    def __init__(self, program: Program, bootstrap_servers: str) -> None:
        self._program = program
        self._bootstrap_servers = bootstrap_servers

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        return self._program.ask({"do": do, "bootstrap": self._bootstrap_servers, **arguments})

    # -- records

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: Compression = "none",
        acks: Acks = "all",
        options: Mapping[str, str] | None = None,
    ) -> Sequence[int]:
        """`options` are further settings of the Java producer."""
        answer = self._ask(
            "produce",
            topic=topic,
            partition=partition,
            compression=compression,
            acks=acks,
            options=options or {},
            records=[_to_json(record) for record in records],
        )
        return answer["offsets"]

    def consume(self, topic: str, count: int, start: Start = BEGINNING, *, partition: int = 0) -> dict[int, Record]:
        place = {"time": start.timestamp_ms} if isinstance(start, FromTime) else {"offset": start.offset}
        answer = self._ask("consume", topic=topic, partition=partition, count=count, **place)
        return {record["offset"]: _from_json(record) for record in answer["records"]}

    def offset(self, topic: str, at: At, *, partition: int = 0) -> Position:
        answer = self._ask("offset", topic=topic, partition=partition, at=str(at))
        return Position(answer["offset"], answer["timestamp"])

    def start_flood(self, topic: str, options: Mapping[str, str] | None = None) -> None:
        """Numbered records without pause, in the background."""
        self._ask("floodStart", topic=topic, partition=0, compression="none", acks="all", options=options or {})

    def stop_flood(self) -> int:
        """Gives how many records were acknowledged; each that was not is an error."""
        return self._ask("floodStop")["acked"]

    # -- topics

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication: int = 1,
        validate_only: bool = False,
    ) -> None:
        self._ask(
            "create",
            topic=topic,
            partitions=partitions,
            configs=configs or {},
            replication=replication,
            validateOnly=validate_only,
        )

    def delete_topic(self, topic: str) -> None:
        self._ask("delete", topic=topic)

    def topics(self) -> set[str]:
        return set(self._ask("list")["topics"])

    def describe_topic(self, topic: str) -> Topic:
        answer = self._ask("describe", topic=topic)
        partitions = (
            Replicas(each["leader"], tuple(each["replicas"]), tuple(each["isr"])) for each in answer["partitions"]
        )
        return Topic(topic_id(answer["id"]), tuple(partitions))

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask("addPartitions", topic=topic, partitions=total)

    def alter_configs(self, topic: str, changed: Mapping[str, str], deleted: Sequence[str] = ()) -> None:
        self._ask("alterConfigs", topic=topic, set=changed, delete=deleted)

    def describe_configs(self, topic: str) -> dict[str, Setting]:
        configs = self._ask("describeConfigs", topic=topic)["configs"]
        undocumented = [name for name, config in configs.items() if not config["documented"]]
        assert not undocumented, "documentation was asked for"
        return {name: Setting(config["value"], config["source"]) for name, config in configs.items()}

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        return self._ask("deleteRecords", topic=topic, partition=partition, before=before)["start"]

    def log_sizes(self, topic: str) -> list[int]:
        """The bytes of each partition, as DescribeLogDirs gives them."""
        return self._ask("logSizes", topic=topic)["sizes"]


def _to_json(record: Record) -> dict[str, Any]:
    return {
        "key": _to_base64(record.key),
        "value": _to_base64(record.value),
        "headers": [{"name": name, "value": _to_base64(value)} for name, value in record.headers],
        "timestamp": record.timestamp_ms,
    }


def _from_json(record: Mapping[str, Any]) -> Record:
    return Record(
        key=_from_base64(record["key"]),
        value=_from_base64(record["value"]),
        headers=tuple((header["name"], _from_base64(header["value"])) for header in record["headers"]),
        timestamp_ms=record["timestamp"],
    )


def _to_base64(cell: bytes | None) -> str | None:
    return None if cell is None else base64.b64encode(cell).decode()


def _from_base64(cell: str | None) -> bytes | None:
    return None if cell is None else base64.b64decode(cell)
