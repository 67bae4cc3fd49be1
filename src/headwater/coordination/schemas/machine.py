"""The machine of the schema registry: decides what changes, by Confluent's rules.

Pure: no clock, no I/O. `decide_*` returns events, `apply` alone mutates, live and in recovery. Schemas are parsed and
compared by the driver (`broker/schemas`); what it found is checked here to be still true.
"""

from collections.abc import Callable, Sequence
from typing import Any

from headwater.coordination.decisions import Decision, Now
from headwater.coordination.schemas import refusals, subjects
from headwater.coordination.schemas.commands import (
    CheckedRegistration,
    ConfigUpdate,
    Outdated,
    Registration,
    SchemaLimits,
)
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
from headwater.coordination.schemas.state import SchemaState, deleted, same_content
from headwater.coordination.schemas.subjects import DEFAULT_CONTEXT
from headwater.coordination.schemas.terms import Mode, StoredSchema, SubjectConfig


class SchemaMachine:
    def __init__(self, limits: Callable[[], SchemaLimits]) -> None:
        self.state = SchemaState()
        self._limits = limits

    def apply(self, event: object) -> None:
        self.state.apply(event)  # pyright: ignore[reportArgumentType] (the log has no other events)

    def next_deadline_ms(self) -> int | None:
        return None

    def decide_due(self, now: Now) -> Decision[None]:  # noqa: ARG002
        return Decision([], None)

    def decide_loaded(self, now: Now) -> Decision[None]:  # noqa: ARG002
        return Decision([], None)

    # -- versions

    def check_may_register(self, registration: Registration) -> Mode:
        """Refuse a registration that the subject's mode does not allow."""
        subject = registration.subject
        subjects.check(subject)
        mode = self.state.mode_in_scope(subject)
        where = f"Subject {subject} in context {subjects.split(subject).prefix}"
        if mode.is_read_only:
            raise refusals.not_permitted(f"{where} is in read-only mode")
        if registration.id >= 0 and mode is not Mode.IMPORT:
            raise refusals.not_permitted(f"{where} is not in import mode")
        if registration.id < 0 and mode is not Mode.READWRITE:
            raise refusals.not_permitted(f"{where} is not in read-write mode")
        return mode

    def decide_register(self, checked: CheckedRegistration) -> Decision[StoredSchema | Outdated]:
        registration, content, state = checked.registration, checked.content, self.state
        subject = registration.subject
        mode = self.check_may_register(registration)
        if state.revision_of(subject) != checked.revision:
            return Decision([], Outdated())
        for reference in content.references:
            target = subjects.inside_context_of(subject, reference.subject)
            if state.find(target, reference.version, with_deleted=True) is None:
                return Decision([], Outdated())
        context = subjects.context_of(subject)
        schema_id = registration.id
        known_id = state.ids_in(context).id_of(content)
        if known_id is not None and schema_id in (-1, known_id):
            schema_id = known_id
            existing = self._version_with(subject, known_id)
            if existing is not None and registration.version == 0:
                return Decision([], existing)
        if checked.equivalent_version is not None and registration.version == 0:
            equivalent = state.find(subject, checked.equivalent_version)
            if equivalent is not None and schema_id in (-1, equivalent.id):
                return Decision([], equivalent)
        if checked.incompatibilities:
            raise refusals.incompatible(subject, checked.incompatibilities)
        stored = StoredSchema(
            subject,
            self._next_version(registration, mode),
            self._id_for(registration, schema_id, context, content_known=known_id is not None),
            content,
        )
        self._check_room(stored)
        events: list[Event] = []
        if context != DEFAULT_CONTEXT and context not in state.contexts:
            events.append(ContextStored(context))
        # As in Confluent's registry: a deleted version of the same schema gives way to the new one.
        for earlier in state.versions_of(subject, with_deleted=True):
            is_same = earlier.is_deleted and earlier.id == stored.id and earlier.version < stored.version
            if is_same and not state.referrers_of(subject, earlier.version, with_deleted=True):
                events.append(SchemaRemoved(subject, earlier.version))
        events.append(SchemaStored(stored))
        return Decision(events, stored)

    def _version_with(self, subject: str, schema_id: int) -> StoredSchema | None:
        """The latest version of the subject with this id."""
        for stored in reversed(self.state.versions_of(subject)):
            if stored.id == schema_id:
                return stored
        return None

    def _next_version(self, registration: Registration, mode: Mode) -> int:
        versions = self.state.versions.get(registration.subject)
        following = next(reversed(versions)) + 1 if versions else 1
        if registration.version <= 0:
            return following
        if registration.version != following and mode is not Mode.IMPORT:
            raise refusals.invalid_schema("Version is not one more than previous version")
        return registration.version

    def _id_for(self, registration: Registration, schema_id: int, context: str, *, content_known: bool) -> int:
        ids = self.state.ids_in(context)
        if schema_id < 0:
            return ids.highest + 1
        existing = ids.content_by_id.get(schema_id)
        if existing is not None and not content_known and not same_content(existing, registration.content):
            raise refusals.not_permitted(
                f"Overwrite new schema with id {schema_id} in context {context} is not permitted."
            )
        return schema_id

    def _check_room(self, stored: StoredSchema) -> None:
        limits = self._limits()
        if self.state.schema_count >= limits.schemas_max:
            raise refusals.not_permitted(f"there are {self.state.schema_count} schemas already (headwater.schemas.max)")
        if self.state.text_bytes + len(stored.content.text) > limits.bytes_total_max:
            raise refusals.RegistryRefusal(
                refusals.SCHEMA_TOO_LARGE,
                f"all schemas together would have more than {limits.bytes_total_max} bytes "
                "(headwater.schemas.total.bytes.max)",
            )

    def decide_delete_version(self, subject: str, version: int, *, is_permanent: bool) -> Decision[int]:
        state = self.state
        stored = state.find(subject, version, with_deleted=True)
        if stored is None:
            if not state.has_subject(subject, with_deleted=True):
                raise refusals.subject_not_found(subject)
            raise refusals.version_not_found(version)
        if stored.is_deleted and not is_permanent:
            raise refusals.version_soft_deleted(subject, stored.version)
        self._check_writable(subject)
        if state.referrers_of(subject, stored.version, with_deleted=is_permanent):
            raise refusals.reference_exists(subject, stored.version)
        if not is_permanent:
            return Decision([SchemaStored(deleted(stored))], stored.version)
        if not stored.is_deleted:
            raise refusals.version_not_soft_deleted(subject, stored.version)
        events = self._removals([stored])
        if len(state.versions[subject]) == 1:
            events += self._settings_removals(subject)
        return Decision(events, stored.version)

    def decide_delete_subject(self, subject: str, *, is_permanent: bool) -> Decision[list[int]]:
        state = self.state
        if not state.has_subject(subject, with_deleted=True):
            raise refusals.subject_not_found(subject)
        if not is_permanent and not state.has_subject(subject):
            raise refusals.subject_soft_deleted(subject)
        self._check_writable(subject)
        versions = state.versions_of(subject, with_deleted=is_permanent)
        for stored in versions:
            referrers = state.referrers_of(subject, stored.version, with_deleted=is_permanent)
            if any(each.subject != subject for each in referrers):
                raise refusals.reference_exists(subject, stored.version)
            if is_permanent and not stored.is_deleted:
                raise refusals.subject_not_soft_deleted(subject)
        numbers = [stored.version for stored in versions]
        if not is_permanent:
            return Decision([SubjectDeleted(subject, numbers[-1])], numbers)
        # Newest first, for versions may refer to earlier ones.
        events = [*self._removals(versions[::-1]), *self._settings_removals(subject)]
        return Decision(events, numbers)

    def _removals(self, versions: Sequence[StoredSchema]) -> list[Event]:
        """Remove versions for good. If the highest ids go with them, they are recorded first, and never given out
        again."""
        highest = {
            context: ids.highest
            for context in {subjects.context_of(stored.subject) for stored in versions}
            if (ids := self.state.ids_in(context)).highest in {stored.id for stored in versions}
        }
        reserved: list[Event] = []
        if highest:
            # One record holds the ids of all contexts.
            reserved = [IdsReserved({context: ids.highest for context, ids in self.state.ids.items()})]
        return [*reserved, *(SchemaRemoved(stored.subject, stored.version) for stored in versions)]

    def _settings_removals(self, subject: str) -> list[Event]:
        events: list[Event] = []
        if subject in self.state.modes:
            events.append(ModeRemoved(subject))
        if subject in self.state.configs:
            events.append(ConfigRemoved(subject))
        return events

    def _check_writable(self, subject: str | None) -> None:
        if self.state.mode_in_scope(subject).is_read_only:
            context = subjects.split(subject or "").prefix
            raise refusals.not_permitted(f"Subject {subject} in context {context} is in read-only mode")

    # -- settings

    def decide_configure(self, subject: str | None, update: ConfigUpdate) -> Decision[SubjectConfig]:
        """An absent setting stays as it is; None removes one."""
        self._check_writable(subject)
        if subject is not None:
            subjects.check(subject, is_for_config=True)
        before = self.state.configs.get(subject)
        values: dict[str, Any] = {} if before is None else dict(before.values)
        for name, value in update.items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        config = SubjectConfig(values)
        return Decision([ConfigStored(subject, config)], config)

    def decide_remove_config(self, subject: str | None) -> Decision[SubjectConfig]:
        self._check_writable(subject)
        config = self.state.configs.get(subject)
        if config is None:
            if subject is not None:
                raise refusals.subject_not_found(subject)
            return Decision([], self.state.config_in_scope(None))
        return Decision([ConfigRemoved(subject)], config)

    def decide_set_mode(self, subject: str | None, mode: Mode, *, is_forced: bool) -> Decision[Mode]:
        if subject is not None:
            subjects.check(subject, is_for_config=True)
        events: list[Event] = []
        if mode is Mode.IMPORT and self.state.mode_in_scope(subject) is not Mode.IMPORT and not is_forced:
            events = self._clear_for_import(subject)
        return Decision([*events, ModeStored(subject, mode)], mode)

    def _clear_for_import(self, subject: str | None) -> list[Event]:
        """Ids of an import must not meet others: nothing may be there, and what was deleted is forgotten."""
        state = self.state
        if state.has_subject(subject or ""):
            raise refusals.not_permitted("Cannot import since found existing subjects")
        gone = [
            stored
            for name in state.subjects_inside(subject or "")
            for stored in state.versions_of(name, with_deleted=True)
        ]
        for stored in gone:
            if state.referrers_of(stored.subject, stored.version, with_deleted=True):
                raise refusals.reference_exists(stored.subject, stored.version)
        return [*(SchemaRemoved(stored.subject, stored.version) for stored in gone), SubjectsCleared(subject)]

    def decide_remove_mode(self, subject: str | None, *, is_recursive: bool) -> Decision[Mode | None]:
        mode = self.state.modes.get(subject)
        if mode is None and not is_recursive:
            if subject is not None:
                raise refusals.subject_not_found(subject)
            return Decision([], Mode.READWRITE)
        events: list[Event] = [] if mode is None else [ModeRemoved(subject)]
        if is_recursive and subjects.is_context(subject or ""):
            events += [
                ModeRemoved(name) for name in self.state.subjects_inside(subject or "") if name in self.state.modes
            ]
        return Decision(events, mode)

    def decide_remove_context(self, context: str) -> Decision[None]:
        if context not in self.state.contexts:
            return Decision([], None)
        if self.state.has_subject(f":{context}:", with_deleted=True):
            raise refusals.RegistryRefusal(
                refusals.CONTEXT_NOT_EMPTY, f"The specified context '{context}' is not empty."
            )
        return Decision([ContextRemoved(context)], None)

    # -- lookups that are refused if nothing is found

    def existing(self, subject: str, version: int, *, with_deleted: bool = False) -> StoredSchema:
        """A version of a subject; of one without context, in any context if the default context has none."""
        state = self.state
        for name in self.names_in_contexts(subject):
            found = state.find(name, version, with_deleted=with_deleted)
            if found is not None:
                return found
        if not state.has_subject(subject, with_deleted=with_deleted):
            raise refusals.subject_not_found(subject)
        raise refusals.version_not_found(version)

    def names_in_contexts(self, subject: str) -> list[str]:
        named = subjects.split(subject)
        if named.context != DEFAULT_CONTEXT or not named.name:
            return [subject]
        return [subject, *(f":{context}:{named.name}" for context in sorted(self.state.contexts))]

    def with_id(self, schema_id: int, subject: str | None) -> StoredSchema:
        """The schema with an id: in the default context, or in the one where the subject has it."""
        state = self.state
        named = subjects.split(subject or "")
        if named.name and named.context == DEFAULT_CONTEXT:
            for name in self.names_in_contexts(named.qualified):
                places = state.ids_in(subjects.context_of(name)).places_by_id.get(schema_id, {})
                for place in places:
                    if place[0] == name:
                        return state.versions[name][place[1]]
        places = state.ids_in(named.context).places_by_id.get(schema_id, {})
        for place, version in places:
            if not named.name or place == named.qualified:
                return state.versions[place][version]
        if places and named.context == DEFAULT_CONTEXT:
            place, version = next(iter(places))
            return state.versions[place][version]
        raise refusals.schema_not_found(schema_id)

    def latest_with(self, subject: str, properties: dict[str, str], *, with_deleted: bool) -> StoredSchema:
        """The latest version whose metadata have these properties."""
        for stored in reversed(self.state.versions_of(subject, with_deleted=with_deleted)):
            metadata = stored.content.metadata
            stated: dict[str, Any] = {} if metadata is None else metadata.get("properties") or {}
            if metadata is not None and properties.items() <= stated.items():
                return stored
        if not self.state.has_subject(subject, with_deleted=with_deleted):
            raise refusals.subject_not_found(subject)
        raise refusals.schema_not_found()
