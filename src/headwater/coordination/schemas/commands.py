"""Requests to the registry that take more than a name, and their results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.coordination.schemas.terms import Content, StoredSchema


@dataclass(frozen=True, slots=True)
class Registration:
    """A schema as a client sends it."""

    subject: str
    content: Content
    # 0 lets the registry choose.
    version: int = 0
    # -1 lets the registry choose; anything else is for a subject in mode IMPORT.
    id: int = -1


@dataclass(frozen=True, slots=True)
class CheckedRegistration:
    """A registration whose schema was parsed and compared outside of the machine, which is too much work for the event
    loop. It counts only if nothing has changed meanwhile."""

    registration: Registration
    # In canonical form.
    content: Content
    revision: tuple[int, int]
    # An earlier version that is the same schema once references are resolved.
    equivalent_version: int | None = None
    incompatibilities: list[str] = field(default_factory=list[str])


class Outdated(NamedTuple):
    """The result of a registration that must be checked again."""


class SchemaLimits(NamedTuple):
    schemas_max: int
    bytes_total_max: int


class IdVersions(NamedTuple):
    """The versions that have an id."""

    schemas: list[StoredSchema]


ConfigUpdate = Mapping[str, Any]
