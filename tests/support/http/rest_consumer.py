"""Consumers of the REST proxy for tests."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from headwater.testing import Broker
from tests.support.http.client import Answer, HttpClient

PATIENCE_S = 30
# Of a broker with a REST proxy.
SETTINGS = {
    "num.partitions": "2",
    "headwater.rest.proxy.enable": "true",
    "headwater.schemas.enable": "true",
    # Longer than a test waits for an answer.
    "headwater.http.wait.ms.max": "50000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


class RestConsumer:
    """A consumer over HTTP, on a connection of its own."""

    def __init__(
        self,
        broker: Broker,
        group: str,
        embedded: str = "json",
        headers: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.http = HttpClient(broker, headers)
        self.embedded = embedded
        body = {"format": embedded, **{name.replace("_", "."): value for name, value in settings.items()}}
        created = self.http.post(f"/consumers/{group}", body)
        assert created.status == 200, created.body
        assert created.json["base_uri"].startswith(broker.http_url)
        self.path = created.json["base_uri"].removeprefix(broker.http_url)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.http.ask(method, self.path + path, body, {name.replace("_", "-"): v for name, v in headers.items()})

    def subscribe(self, *topics: str) -> None:
        assert self.ask("POST", "/subscription", {"topics": topics}).status == 204

    def assign(self, *partitions: tuple[str, int]) -> None:
        body = {"partitions": [{"topic": topic, "partition": partition} for topic, partition in partitions]}
        assert self.ask("POST", "/assignments", body).status == 204

    def records(self, timeout_ms: int = 0, max_bytes: int = -1) -> list[dict[str, Any]]:
        accept = f"application/vnd.kafka.{self.embedded}.v2+json"
        answered = self.ask("GET", f"/records?timeout={timeout_ms}&max_bytes={max_bytes}", accept=accept)
        assert answered.status == 200, answered.body
        assert answered.headers["content-type"] == accept
        return answered.json

    def take(self, count: int) -> list[Any]:
        """The values of so many records."""
        values: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(values) < count:
            assert time.monotonic() < deadline, values
            values += [each["value"] for each in self.records(1_000)]
        return values

    def assignment(self) -> set[tuple[str, int]]:
        found = self.ask("GET", "/assignments").json["partitions"]
        return {(each["topic"], each["partition"]) for each in found}

    def delete(self) -> int:
        status = self.ask("DELETE", "").status
        self.http.connection.close()
        return status


def write(http: HttpClient, topic: str, *values: Any, partition: int = 0, embedded: str = "json", **more: Any) -> None:
    body = {"records": [{"value": value, "partition": partition} for value in values], **more}
    answered = http.post(f"/topics/{topic}", body, content_type=f"application/vnd.kafka.{embedded}.v2+json")
    assert answered.status == 200, answered.body
    assert not any(each["error"] for each in answered.json["offsets"])


def committed(consumer: RestConsumer, topic: str, partition: int = 0) -> int | None:
    body = {"partitions": [{"topic": topic, "partition": partition}]}
    found = consumer.ask("GET", "/offsets", body).json["offsets"]
    return found[0]["offset"] if found else None


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
