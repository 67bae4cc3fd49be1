"""What these tests say to every client and hear from it, in terms that belong to none of them."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
COMPRESSIONS: Sequence[Compression] = ("none", "gzip", "snappy", "lz4", "zstd")

Acks = Literal["0", "1", "all"]

# A place in the log: one of its ends, the record with the latest time, or the first record at or after a time.
At = Literal["earliest", "latest", "maxTimestamp"] | int


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    # None leaves the time to the client's own clock.
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FromOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class FromTime:
    timestamp_ms: int


Start = FromOffset | FromTime
BEGINNING = FromOffset(0)


@dataclass(frozen=True, slots=True)
class Position:
    """Where ListOffsets found something; a timestamp of -1 where it gives none, None where the client hides it."""

    offset: int
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Replicas:
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    id: UUID
    partitions: tuple[Replicas, ...]


def topic_id(text: str) -> UUID:
    """Clients write an id in one base64 or the other, with padding or without."""
    return UUID(bytes=base64.urlsafe_b64decode(text.rstrip("=") + "=="))


@dataclass(frozen=True, slots=True)
class Setting:
    value: str
    source: str


class Refused(Exception):
    """The broker or the client said no; `error` is Kafka's name of the reason."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(f"{error}: {message}")
        self.error = error


class RecordClient(Protocol):
    """Writes and reads one partition, by manual assignment."""

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: Compression = "none",
        acks: Acks = "all",
    ) -> Sequence[int] | None:
        """Gives the acknowledged offsets where the client tells them."""
        ...

    def consume(self, topic: str, count: int, start: Start = BEGINNING, *, partition: int = 0) -> dict[int, Record]:
        """At least `count` records by their offsets."""
        ...

    def offset(self, topic: str, at: At, *, partition: int = 0) -> Position: ...


class AdminClient(RecordClient, Protocol):
    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication: int = 1,
        validate_only: bool = False,
    ) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def topics(self) -> set[str]: ...

    def describe_topic(self, topic: str) -> Topic: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def alter_configs(self, topic: str, changed: Mapping[str, str], deleted: Sequence[str] = ()) -> None: ...

    def describe_configs(self, topic: str) -> dict[str, Setting]: ...

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        """Gives the offset at which the log starts afterwards."""
        ...


# The client of that name.
Connect = Callable[[str], RecordClient]
