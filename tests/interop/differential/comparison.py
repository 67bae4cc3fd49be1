"""Answers of two brokers, compared field by field: what may differ by its nature is made alike first.

The order of an array's structures has no meaning in Kafka's protocol, so each array is sorted.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from headwater.errors import ErrorCode
from headwater.ids import NO_TOPIC_ID
from headwater.protocol.wire.codec import Message
from headwater.protocol.wire.schema import Array, Kind, NestedStruct, Struct

Plain: TypeAlias = "Mapping[str, Plain] | Sequence[Plain] | str | int | float | None"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Texts for people, addresses, identities that each broker makes up, and readings of the clock: only whether there is
# one is compared.
_ONLY_WHETHER = frozenset(
    {
        "base_offset",
        "cluster_id",
        "documentation",
        "expiry_timestamp",
        "expiry_timestamp_ms",
        "hmac",
        "host",
        "issue_timestamp",
        "issue_timestamp_ms",
        "last_caught_up_timestamp",
        "last_fetch_timestamp",
        "last_timestamp",
        "log_append_time_ms",
        "log_dir",
        "max_timestamp",
        "max_timestamp_ms",
        "port",
        "producer_id",
        "session_id",
        "session_lifetime_ms",
        "token_id",
        "total_bytes",
        "transaction_start_time_ms",
        "usable_bytes",
    }
)
# What tells the structures of an array apart.
IDENTITIES = (
    "api_key",
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "transactional_id",
    "resource_type",
    "resource_name",
    "key",
    "user",
    "member_id",
    "index",
    "partition",
    "partition_index",
    "partition_id",
    "broker_id",
    "node_id",
    "principal",
    "operation",
)
# Each broker words its refusals in its own way, and some have words where the other's have none.
_NOT_COMPARED = frozenset({"error_message", "batch_index_error_message", "throttle_time_ms"})


class Difference(NamedTuple):
    """One field that differs. The path names elements of arrays: `topics[orders].partitions[0].error_code`."""

    path: str
    kafka: Plain
    headwater: Plain

    def __str__(self) -> str:
        return f"{self.path}: Kafka {self.kafka}, Headwater {self.headwater}"


class Meant(NamedTuple):
    """Differences that are meant. In `api`, `path` and `case` a `*` stands for any text."""

    api: str
    path: str
    reason: str
    # The case of the test's table.
    case: str = "*"
    # Whether it is there in every run.
    is_constant: bool = True

    def covers(self, api: str, case: str, difference: Difference) -> bool:
        return _fits(api, self.api) and _fits(case, self.case) and _fits(difference.path, self.path)


def _fits(text: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


def plain(message: Message, version: int, topic_names: Mapping[UUID, str]) -> Plain:
    """The fields that the version has, with whatever differs by its nature made alike."""
    return _plain_struct(message, version, topic_names)


def _plain_struct(struct: Struct, version: int, topic_names: Mapping[UUID, str]) -> Plain:
    return {
        field.name: _plain(field.name, field.kind, getattr(struct, field.name), version, topic_names)
        for field in type(struct).__fields__
        if version in field.versions and field.name not in _NOT_COMPARED
    }


def _plain(name: str, kind: Kind, value: Any, version: int, topic_names: Mapping[UUID, str]) -> Plain:
    match kind:
        case Array(element):
            if value is None:
                return None
            return sorted((_plain(name, element, each, version, topic_names) for each in value), key=repr)
        case NestedStruct():
            return None if value is None else _plain_struct(value, version, topic_names)
        case _:
            return _plain_value(name, value, topic_names)


def _plain_value(name: str, value: Any, topic_names: Mapping[UUID, str]) -> Plain:
    if value is None:
        return None
    if isinstance(value, UUID):
        return "none" if value == NO_TOPIC_ID else f"id of {topic_names.get(value, 'a topic')}"
    if name in _ONLY_WHETHER:
        is_given = value >= 0 if isinstance(value, int) else bool(value)
        return "given" if is_given else "not given"
    if name.endswith("error_code"):
        return ErrorCode(value).name
    if isinstance(value, memoryview | bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, str):
        return _UUID.sub("UUID", value)
    return value


def differences(kafka: Plain, headwater: Plain, path: str = "") -> Iterator[Difference]:
    if isinstance(kafka, Mapping) and isinstance(headwater, Mapping):
        for name, value in kafka.items():
            yield from differences(value, headwater[name], f"{path}.{name}" if path else name)
    elif isinstance(kafka, list) and isinstance(headwater, list):
        yield from _array_differences(kafka, headwater, path)
    elif kafka != headwater:
        yield Difference(path, kafka, headwater)


def _array_differences(kafka: list[Plain], headwater: list[Plain], path: str) -> Iterator[Difference]:
    """Elements belong together if they have the same name or index, and the same place among those that have it."""
    theirs, ours = _by_identity(kafka), _by_identity(headwater)
    for identity, value in theirs.items():
        where = f"{path}[{identity[0]}]"
        if identity in ours:
            yield from differences(value, ours[identity], where)
        else:
            yield Difference(where, value, MISSING)
    for identity, value in ours.items():
        if identity not in theirs:
            yield Difference(f"{path}[{identity[0]}]", MISSING, value)


MISSING = "(missing)"


def _by_identity(elements: list[Plain]) -> dict[tuple[str, int], Plain]:
    found: dict[tuple[str, int], Plain] = {}
    count: Counter[str] = Counter()
    for element in elements:
        identity = _identity(element)
        found[identity, count[identity]] = element
        count[identity] += 1
    return found


def _identity(element: Plain) -> str:
    if not isinstance(element, Mapping):
        return str(element)
    return "/".join(str(element[name]) for name in IDENTITIES if name in element)
