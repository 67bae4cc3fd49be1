"""Subjects: list them, find a schema under one, delete one."""

import msgspec

from headwater.broker.audit.event import EventType
from headwater.coordination.schemas import subjects
from headwater.coordination.schemas.machine import SchemaMachine
from headwater.listeners.http.registry import rights
from headwater.listeners.http.registry.answers import answer, schema_body
from headwater.listeners.http.registry.bodies import SchemaBody, registration_of
from headwater.listeners.http.registry.declaration import Page, page_of, registry_operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.security.acl import Operation


class SubjectFilter(Page, rename="camel"):
    subject_prefix: str = subjects.WILDCARD
    deleted: bool = False
    deleted_only: bool = False


class Lookup(msgspec.Struct):
    normalize: bool = False
    deleted: bool = False
    format: str = ""


class Deletion(msgspec.Struct):
    permanent: bool = False


class MetadataLookup(msgspec.Struct):
    key: list[str] = []
    value: list[str] = []
    deleted: bool = False
    format: str = ""


@registry_operation("GET", "/subjects")
async def list_subjects(request: Request, query: SubjectFilter) -> Response:
    """The names of subjects. Those that the client may not describe are left out."""

    def names(machine: SchemaMachine) -> list[str]:
        state = machine.state
        found: list[str] = []
        for name in state.versions:
            is_live = state.has_subject(name)
            wanted = not is_live if query.deleted_only else is_live or query.deleted
            if wanted and has_prefix(name, query.subject_prefix):
                found.append(name)
        return sorted(found)

    found = rights.shown(request, await request.broker.schemas.ask(names))
    return answer(page_of(found, query))


def has_prefix(name: str, prefix: str) -> bool:
    """`:*:` stands for any context."""
    if prefix.startswith(subjects.WILDCARD):
        return subjects.split(name).name.startswith(prefix[len(subjects.WILDCARD) :])
    wanted = subjects.split(prefix)
    named = subjects.split(name)
    return named.context == wanted.context and named.name.startswith(wanted.name)


@registry_operation("POST", "/subjects/{subject}")
async def look_up(request: Request, subject: str, query: Lookup, body: SchemaBody) -> Response:
    """Whether a schema is registered under the subject, and as which version. Needs DESCRIBE on the topic."""
    registration = registration_of(subject, body)
    rights.check(request, Operation.DESCRIBE, registration.subject)
    registry = request.broker.schemas
    stored = await registry.look_up(registration, normalize=query.normalize, with_deleted=query.deleted)
    return answer(schema_body(stored, await registry.formatted(stored, query.format)))


@registry_operation("DELETE", "/subjects/{subject}")
async def delete_subject(request: Request, subject: str, query: Deletion) -> Response:
    """Delete all versions: first softly, then with `permanent=true` for good. Needs DELETE on the topic."""
    name = subjects.normalized(subject)
    rights.check(request, Operation.DELETE, name)
    with request.guard.change(EventType.SCHEMA_DELETE, f"subject '{name}'", {"permanent": str(query.permanent)}):
        return answer(await request.broker.schemas.delete_subject(name, is_permanent=query.permanent))


@registry_operation("GET", "/subjects/{subject}/metadata")
async def latest_with_metadata(request: Request, subject: str, query: MetadataLookup) -> Response:
    """The latest version whose metadata have these properties. Needs DESCRIBE on the topic."""
    name = subjects.normalized(subject)
    rights.check(request, Operation.DESCRIBE, name)
    wanted = dict(zip(query.key, query.value, strict=False))
    registry = request.broker.schemas
    stored = await registry.ask(lambda machine: machine.latest_with(name, wanted, with_deleted=query.deleted))
    return answer(schema_body(stored, await registry.formatted(stored, query.format)))


OPERATIONS = (list_subjects, look_up, delete_subject, latest_with_metadata)
