"""What the registry stores: contents, versions of subjects, settings and modes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import md5
from typing import Any, Final, cast
from uuid import UUID

from headwater.registry.parsed import Reference, SchemaType

# A JSON object that is kept as it is.
Json = Mapping[str, Any]
LATEST: Final = -1
VERSION_MAX: Final = 2**31 - 1


class Mode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


@dataclass(frozen=True, slots=True)
class Content:
    """A schema without its place: equal contents have one id in a context."""

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None

    @property
    def guid(self) -> str:
        """As Confluent makes it: a hash of all but the type."""
        hashed = md5(self.text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
        for reference in self.references:
            hashed.update(reference.name.encode() + reference.subject.encode())
            hashed.update(reference.version.to_bytes(4, "big", signed=True))
        if self.metadata is not None:
            hashed.update(b"\x01")
            for part in _metadata_parts(self.metadata):
                hashed.update(part.encode())
        if self.rule_set is not None:
            hashed.update(b"\x01")
            for part in _rule_set_parts(self.rule_set):
                hashed.update(part)
        return str(UUID(bytes=hashed.digest()))


@dataclass(frozen=True, slots=True)
class StoredSchema:
    subject: str
    version: int
    id: int
    content: Content
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class SubjectConfig:
    """Settings by Confluent's names; those that nobody set are absent."""

    values: Json

    @property
    def compatibility(self) -> str | None:
        return cast("str | None", self.values.get("compatibilityLevel"))

    def get(self, name: str) -> Any:
        return self.values.get(name)


def _metadata_parts(metadata: Json) -> list[str]:
    parts: list[str] = []
    for tag, values in sorted(cast("Json", metadata.get("tags") or {}).items()):
        parts += [tag, *sorted(values)]
    for name, value in sorted(cast("Json", metadata.get("properties") or {}).items()):
        parts += [name, value]
    return parts + sorted(metadata.get("sensitive") or ())


def _rule_set_parts(rule_set: Json) -> list[bytes]:
    parts: list[bytes] = []
    for kind in ("migrationRules", "domainRules", "encodingRules"):
        for rule in cast("list[Json]", rule_set.get(kind) or ()):
            parts += [str(rule[key]).encode() for key in ("name", "doc", "kind", "mode", "type") if rule.get(key)]
            parts += [str(tag).encode() for tag in sorted(rule.get("tags") or ())]
            for name, value in sorted(cast("Json", rule.get("params") or {}).items()):
                parts += [name.encode(), str(value).encode()]
            parts += [str(rule[key]).encode() for key in ("expr", "onSuccess", "onFailure") if rule.get(key)]
            if rule.get("disabled"):
                parts.append(b"\x01")
    if rule_set.get("enableAt"):
        parts.append(str(rule_set["enableAt"]).encode())
    return parts
