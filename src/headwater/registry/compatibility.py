"""Compatibility levels: which earlier versions a new schema is compared with, and in which direction."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from headwater.registry.limits import bounded
from headwater.registry.parsed import ParsedSchema, Policy

_DIFFERENT_TYPE = "Incompatible because of different schema type"
# Longer schemas are cut off in messages.
_QUOTED_LENGTH_MAX = 10 * 1024


class Level(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def reads_earlier(self) -> bool:
        """Whether the new schema must read what earlier ones wrote."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_read_by_earlier(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


class Version(NamedTuple):
    number: int
    schema: ParsedSchema


@bounded
def check(level: Level, policy: Policy, new: ParsedSchema, earlier: Sequence[Version]) -> list[str]:
    """Why the schema may not follow the earlier versions, oldest first; Confluent's messages. Empty if it may."""
    if level is Level.NONE:
        return []
    newest_first = list(reversed(earlier))
    for version in newest_first if level.is_transitive else newest_first[:1]:
        messages = _compare(level, policy, new, version)
        if messages:
            return messages
    return []


def _compare(level: Level, policy: Policy, new: ParsedSchema, version: Version) -> list[str]:
    old = version.schema
    if new.type is not old.type:
        return [_DIFFERENT_TYPE]
    forward: list[str] = []
    backward: list[str] = []
    if level.is_read_by_earlier:
        forward = [_filled(each, "old", "new") for each in old.incompatibilities(new, policy)]
    if level.reads_earlier:
        backward = [_filled(each, "new", "old") for each in new.incompatibilities(old, policy)]
    messages = forward + backward
    # With FULL, Confluent names the old schema only after messages of the backward direction.
    if backward or (forward and not level.reads_earlier):
        messages.append(f"{{oldSchemaVersion: {version.number}}}")
        text = old.canonical
        if len(text) <= _QUOTED_LENGTH_MAX:
            messages.append(f"{{oldSchema: '{text}'}}")
        else:
            messages.append(f"{{oldSchema: <truncated> '{text[:_QUOTED_LENGTH_MAX]}...'}}")
    return messages


def _filled(message: str, reader: str, writer: str) -> str:
    return message.replace("%s", reader, 1).replace("%s", writer, 1)
