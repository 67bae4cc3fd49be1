"""What the registry's own routes and the REST proxy both do: find a schema by its id, register one."""

from headwater.broker.audit.event import EventType
from headwater.coordination.schemas import refusals, subjects
from headwater.coordination.schemas.commands import Registration
from headwater.coordination.schemas.machine import SchemaMachine
from headwater.coordination.schemas.terms import StoredSchema
from headwater.listeners.http.registry import rights
from headwater.listeners.http.request import Request
from headwater.security.acl import Operation


async def with_id(request: Request, schema_id: int, subject: str | None) -> StoredSchema:
    """The schema with an id, under a subject that the client may see."""

    def find(machine: SchemaMachine) -> StoredSchema:
        stored = machine.with_id(schema_id, subject)
        if request.guard.is_open:
            return stored
        versions = versions_with(machine, schema_id, subjects.split(stored.subject).prefix)
        names = rights.shown(request, [each.subject for each in versions])
        return next((each for each in versions if each.subject in names), stored)

    stored = await request.broker.schemas.ask(find)
    rights.check(request, Operation.DESCRIBE, stored.subject)
    return stored


def versions_with(machine: SchemaMachine, schema_id: int, subject: str | None) -> list[StoredSchema]:
    """The versions with an id, in the context that the subject is in."""
    state = machine.state
    places = state.ids_in(subjects.context_of(subject or "")).places_by_id.get(schema_id)
    if places is None:
        raise refusals.schema_not_found()
    return [state.versions[name][version] for name, version in places]


async def register(
    request: Request, registration: Registration, *, normalize: bool = False, is_forced: bool = False
) -> StoredSchema:
    """Needs WRITE on the topic of the subject."""
    name = registration.subject
    rights.check(request, Operation.WRITE, name)
    if is_forced:
        rights.check(request, Operation.ALTER_CONFIGS, name)
    rights.check_references(request, name, (each.subject for each in registration.content.references))
    with request.guard.change(EventType.SCHEMA_REGISTER, f"subject '{name}'"):
        return await request.broker.schemas.register(registration, normalize=normalize, is_forced=is_forced)
