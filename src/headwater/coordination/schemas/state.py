"""What the registry knows, and how events change it; `machine.py` decides on it."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from headwater.coordination.schemas import subjects
from headwater.coordination.schemas.contents import ContextIds, Place
from headwater.coordination.schemas.events import (
    ConfigRemoved,
    ConfigStored,
    ContextRemoved,
    ContextStored,
    Event,
    IdsReserved,
    ModeRemoved,
    ModeStored,
    SchemaRemoved,
    SchemaStored,
    SubjectDeleted,
    SubjectsCleared,
)
from headwater.coordination.schemas.subjects import DEFAULT_CONTEXT, GLOBAL_CONTEXT
from headwater.coordination.schemas.terms import LATEST, Content, Json, Mode, StoredSchema, SubjectConfig
from headwater.registry.compatibility import Level

DEFAULT_LEVEL = Level.BACKWARD

T = TypeVar("T")


class SchemaState:
    def __init__(self) -> None:
        # By subject, then by version in ascending order.
        self.versions: dict[str, dict[int, StoredSchema]] = {}
        self.contexts: set[str] = set()
        self.ids: dict[str, ContextIds] = {DEFAULT_CONTEXT: ContextIds()}
        self.configs: dict[str | None, SubjectConfig] = {}
        self.modes: dict[str | None, Mode] = {}
        # The versions that refer to one.
        self.referrers: dict[Place, dict[Place, None]] = {}
        self.schema_count = 0
        # Of all texts.
        self.text_bytes = 0
        # Rise with each change: what was worked out before is then out of date.
        self.revision = 0
        self._settings_revision = 0
        self._revisions: dict[str, int] = {}

    # -- lookups

    def find(self, subject: str, version: int, *, with_deleted: bool = False) -> StoredSchema | None:
        """A version, or the latest."""
        versions = self.versions.get(subject, {})
        if version == LATEST:
            for number in reversed(versions):
                if not versions[number].is_deleted:
                    return versions[number]
            if with_deleted and versions:
                return versions[next(reversed(versions))]
            return None
        found = versions.get(version)
        return found if found is not None and (with_deleted or not found.is_deleted) else None

    def versions_of(self, subject: str, *, with_deleted: bool = False) -> list[StoredSchema]:
        return [each for each in self.versions.get(subject, {}).values() if with_deleted or not each.is_deleted]

    def has_subject(self, subject: str, *, with_deleted: bool = False) -> bool:
        """Whether it has versions; of a context, any of its subjects."""
        if subjects.is_context(subject):
            return any(self._inside(subject, with_deleted=with_deleted))
        return any(with_deleted or not each.is_deleted for each in self.versions.get(subject, {}).values())

    def subjects_inside(self, subject: str, *, with_deleted: bool = True) -> list[str]:
        """The subject itself; of a context, its subjects."""
        if subjects.is_context(subject):
            return list(self._inside(subject, with_deleted=with_deleted))
        return [subject] if self.has_subject(subject, with_deleted=with_deleted) else []

    def _inside(self, context: str, *, with_deleted: bool) -> Iterator[str]:
        wanted = subjects.context_of(context)
        for name in self.versions:
            if wanted in (GLOBAL_CONTEXT, subjects.context_of(name)) and self.has_subject(
                name, with_deleted=with_deleted
            ):
                yield name

    def ids_in(self, context: str) -> ContextIds:
        found = self.ids.get(context)
        return found if found is not None else ContextIds()

    def referrers_of(self, subject: str, version: int, *, with_deleted: bool) -> list[StoredSchema]:
        found = [self.versions[name][number] for name, number in self.referrers.get((subject, version), ())]
        return [each for each in found if with_deleted or not each.is_deleted]

    def config_in_scope(self, subject: str | None) -> SubjectConfig:
        """The settings that hold for a subject: its own, and where it has none those of its context."""
        level: Json = {"compatibilityLevel": DEFAULT_LEVEL.value}
        nothing: Json = {}
        scopes = [None if subject is None else self.configs.get(subject), *self._scopes(self.configs, subject)]
        found = next((each.values for each in scopes if each is not None), nothing)
        return SubjectConfig({**level, **found})

    def mode_in_scope(self, subject: str | None) -> Mode:
        scopes = [None if subject is None else self.modes.get(subject), *self._scopes(self.modes, subject)]
        return next((each for each in scopes if each is not None), Mode.READWRITE)

    def _scopes(self, of: Mapping[str | None, T], subject: str | None) -> Iterator[T | None]:
        context = DEFAULT_CONTEXT if subject is None else subjects.context_of(subject)
        yield of.get(None if context == DEFAULT_CONTEXT else f":{context}:")
        yield of.get(f":{GLOBAL_CONTEXT}:")

    def revision_of(self, subject: str) -> tuple[int, int]:
        """Changes with the versions of the subject, and with any setting."""
        return self._revisions.get(subject, 0), self._settings_revision

    # -- changes

    def apply(self, event: Event) -> None:
        self.revision += 1
        match event:
            case SchemaStored(schema):
                self._store(schema)
            case SchemaRemoved(subject, version):
                self._remove(subject, version)
            case SubjectDeleted(subject, version):
                for stored in list(self.versions.get(subject, {}).values()):
                    if stored.version <= version and not stored.is_deleted:
                        self._store(deleted(stored))
            case SubjectsCleared(subject):
                for name in self.subjects_inside(subject or ""):
                    for stored in self.versions_of(name, with_deleted=True):
                        if stored.is_deleted:
                            self._remove(name, stored.version)
            case ConfigStored(subject, config):
                self.configs[subject] = config
                self._settings_revision += 1
            case ConfigRemoved(subject):
                self.configs.pop(subject, None)
                self._settings_revision += 1
            case ModeStored(subject, mode):
                self.modes[subject] = mode
                self._settings_revision += 1
            case ModeRemoved(subject):
                self.modes.pop(subject, None)
                self._settings_revision += 1
            case ContextStored(context):
                self.contexts.add(context)
            case ContextRemoved(context):
                self.contexts.discard(context)
            case IdsReserved(highest):
                for context, number in highest.items():
                    ids = self.ids.setdefault(context, ContextIds())
                    ids.highest = max(ids.highest, number)

    def _store(self, schema: StoredSchema) -> None:
        self._remove(schema.subject, schema.version)
        versions = self.versions.setdefault(schema.subject, {})
        is_last = not versions or schema.version > next(reversed(versions))
        versions[schema.version] = schema
        if not is_last:
            # Versions of an import come in any order.
            self.versions[schema.subject] = dict(sorted(versions.items()))
        context = subjects.context_of(schema.subject)
        if context != DEFAULT_CONTEXT:
            self.contexts.add(context)
        self.ids.setdefault(context, ContextIds()).add(schema)
        for target in _targets(schema):
            self.referrers.setdefault(target, {})[schema.subject, schema.version] = None
        self.schema_count += 1
        self.text_bytes += len(schema.content.text)
        self._revisions[schema.subject] = self.revision

    def _remove(self, subject: str, version: int) -> None:
        versions = self.versions.get(subject, {})
        stored = versions.pop(version, None)
        if stored is None:
            return
        if not versions:
            del self.versions[subject]
        self.ids[subjects.context_of(subject)].remove(stored)
        for target in _targets(stored):
            referrers = self.referrers.get(target, {})
            referrers.pop((subject, version), None)
            if not referrers:
                self.referrers.pop(target, None)
        self.schema_count -= 1
        self.text_bytes -= len(stored.content.text)
        self._revisions[subject] = self.revision


def deleted(stored: StoredSchema) -> StoredSchema:
    return StoredSchema(stored.subject, stored.version, stored.id, stored.content, is_deleted=True)


def _targets(schema: StoredSchema) -> list[Place]:
    return [
        (subjects.inside_context_of(schema.subject, reference.subject), reference.version)
        for reference in schema.content.references
    ]


def same_content(one: Content, other: Content) -> bool:
    return one.type is other.type and one.guid == other.guid
