"""What changes the registry. Each event is one record of its topic."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from headwater.coordination.schemas.terms import Mode, StoredSchema, SubjectConfig


class SchemaStored(NamedTuple):
    schema: StoredSchema


class SchemaRemoved(NamedTuple):
    subject: str
    version: int


class SubjectDeleted(NamedTuple):
    """All versions up to this one are marked as deleted."""

    subject: str
    version: int


class SubjectsCleared(NamedTuple):
    """What was deleted of a subject, or in a context, is forgotten."""

    subject: str | None


class ConfigStored(NamedTuple):
    """Without a subject, of the default context."""

    subject: str | None
    config: SubjectConfig


class ConfigRemoved(NamedTuple):
    subject: str | None


class ModeStored(NamedTuple):
    subject: str | None
    mode: Mode


class ModeRemoved(NamedTuple):
    subject: str | None


class ContextStored(NamedTuple):
    context: str


class ContextRemoved(NamedTuple):
    context: str


class IdsReserved(NamedTuple):
    """By context, the highest id that was ever given out: no id returns, even if its schema is removed for good."""

    highest: Mapping[str, int]


Event: TypeAlias = (
    SchemaStored
    | SchemaRemoved
    | SubjectDeleted
    | SubjectsCleared
    | ConfigStored
    | ConfigRemoved
    | ModeStored
    | ModeRemoved
    | ContextStored
    | ContextRemoved
    | IdsReserved
)
