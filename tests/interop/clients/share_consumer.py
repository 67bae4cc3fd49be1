"""The Java client's share consumers, inside our Java program, and the administration of their groups."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.interop.clients.program import Program

TIMEOUT_MS = 30_000


class Delivery(NamedTuple):
    offset: int
    value: str
    deliveries: int


class Polled(NamedTuple):
    records: Sequence[Delivery]
    # Kafka's names of the errors of its acknowledgements.
    errors: Sequence[str]

    @property
    def offsets(self) -> list[int]:
        return [each.offset for each in self.records]


class ShareConsumer:
    """Polls whole batches of a topic's partitions, and says of each record what it is told to say."""

    def __init__(
        self, program: Program, bootstrap_servers: str, group: str, topic: str, name: str, **options: str
    ) -> None:
        self._program = program
        self._name = name
        self._is_closed = False
        settings = {key.replace("_", "."): value for key, value in options.items()}
        self._ask("shareOpen", bootstrap=bootstrap_servers, group=group, topic=topic, options=settings)

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        return self._program.ask({"do": do, "name": self._name, **arguments})

    def poll(
        self, wanted: int, *, say: str | None = None, commits: bool = True, timeout_ms: int = TIMEOUT_MS
    ) -> Polled:
        answer = self._ask("sharePoll", wanted=wanted, say=say, commits=commits, timeoutMs=timeout_ms)
        records = [Delivery(each["offset"], each["value"], each["deliveries"]) for each in answer["records"]]
        return Polled(records, answer["errors"])

    def acknowledge(self, say: str, *offsets: int) -> Sequence[str]:
        return self._ask("shareAcknowledge", offsets=offsets, say=say)["errors"]

    def close(self) -> None:
        """May be called again."""
        if not self._is_closed:
            self._is_closed = True
            self._ask("shareClose")


class ShareAdmin:
    def __init__(self, program: Program, bootstrap_servers: str) -> None:
        self._program = program
        self._bootstrap_servers = bootstrap_servers

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        return self._program.ask({"do": do, "bootstrap": self._bootstrap_servers, **arguments})

    def describe(self, group: str) -> dict[str, Any]:
        return self._ask("describeShareGroup", group=group)

    def offsets(self, group: str) -> Mapping[str, Mapping[str, int | None]]:
        return self._ask("shareGroupOffsets", group=group)["offsets"]

    def alter_offset(self, group: str, topic: str, offset: int) -> None:
        self._ask("alterShareGroupOffset", group=group, topic=topic, offset=offset)

    def delete_offsets(self, group: str, topic: str) -> None:
        self._ask("deleteShareGroupOffsets", group=group, topic=topic)

    def delete(self, group: str) -> None:
        self._ask("deleteShareGroup", group=group)
