"""Runs recipes by their command line as users do, but in the Spark session that tests share."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.testing import CliRunner

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import ConsumedRecord, Consumer
from headwater.client.offsets import EARLIEST, LATEST, list_offsets
from headwater.client.producer import Producer
from headwater.ids import TopicPartition
from headwater.protocol.batches.records import Headers

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Sent(NamedTuple):
    key: str | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def in_ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def order(number: int, seconds: float, **fields: Any) -> Sent:
    """An order, `seconds` after noon."""
    customer = fields.get("customer", "ann")
    document = {"order": number, "customer": customer, "item": "tea", "quantity": 1, "price": 1.5} | fields
    value = json.dumps({**document, "time": at(seconds).isoformat()}).encode()
    return Sent(customer, value, timestamp_ms=in_ms(at(seconds)))


def run(recipe: click.Command, bootstrap: str, *arguments: str | Path, once: bool = True) -> None:
    command = ["--bootstrap", bootstrap, *map(str, arguments), *(["--once"] if once else [])]
    result = CliRunner().invoke(recipe, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output


class Topics:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self, name: str, partitions: int = 2) -> None:
        Admin(self._cluster).create_topic(name, partition_count=partitions)

    def send(self, topic: str, records: Iterable[Sent]) -> None:
        with Producer(self._cluster) as producer:
            for key, value, headers, timestamp_ms in records:
                key_bytes = None if key is None else key.encode()
                producer.send(topic, value, key=key_bytes, headers=headers, timestamp_ms=timestamp_ms)

    def received(self, topic: str) -> list[ConsumedRecord]:
        """Records that a read_committed consumer sees; none if the topic does not exist."""
        if topic not in {each.name for each in self._cluster.topics()}:
            return []
        described = self._cluster.topic(topic)
        partitions = [TopicPartition(described.name, each.index) for each in described.partitions]
        ends = list_offsets(self._cluster, partitions, LATEST, committed_only=True)
        starts = list_offsets(self._cluster, partitions, EARLIEST)
        consumer = Consumer(self._cluster, starts, committed_only=True)
        records: list[ConsumedRecord] = []
        while any(consumer.positions[each] < end for each, end in ends.items()):
            records += consumer.poll()
        return records

    def documents(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"null") for record in self.received(topic)]
