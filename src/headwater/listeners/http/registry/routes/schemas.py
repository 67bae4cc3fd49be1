"""Schemas by their ids, which is what readers of records ask for, and lists of schemas."""

from typing import Any

import msgspec

from headwater.coordination.schemas import refusals, subjects
from headwater.coordination.schemas.machine import SchemaMachine
from headwater.coordination.schemas.subjects import DEFAULT_CONTEXT
from headwater.coordination.schemas.terms import StoredSchema
from headwater.listeners.http.registry import rights
from headwater.listeners.http.registry.answers import answer, schema_body, schema_string
from headwater.listeners.http.registry.declaration import Page, page_of, registry_operation
from headwater.listeners.http.registry.lookup import versions_with, with_id
from headwater.listeners.http.registry.routes.subjects import has_prefix
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.registry.parsed import SchemaType
from headwater.security.acl import Operation


class SchemaFilter(Page, rename="camel"):
    subject_prefix: str = subjects.WILDCARD
    deleted: bool = False
    latest_only: bool = False


class IdQuery(msgspec.Struct, rename="camel"):
    # A subject, or a context, in which the id is looked for.
    subject: str | None = None
    format: str = ""
    fetch_max_id: bool = False


class IdFilter(Page):
    subject: str | None = None
    deleted: bool = False


class GuidQuery(msgspec.Struct):
    format: str = ""


@registry_operation("GET", "/schemas")
async def list_schemas(request: Request, query: SchemaFilter) -> Response:
    """Versions of all subjects. Those that the client may not describe are left out."""

    def found(machine: SchemaMachine) -> list[StoredSchema]:
        state = machine.state
        versions: list[StoredSchema] = []
        for name in rights.shown(request, sorted(state.versions)):
            if has_prefix(name, query.subject_prefix):
                of_subject = state.versions_of(name, with_deleted=query.deleted)
                versions += of_subject[-1:] if query.latest_only else of_subject
        return page_of(versions, query)

    return answer([schema_body(stored) for stored in await request.broker.schemas.ask(found)])


@registry_operation("GET", "/schemas/types")
async def list_types(_request: Request) -> Response:
    """The formats of schemas."""
    return answer(sorted(kind.value for kind in SchemaType))


@registry_operation("GET", "/schemas/ids/{schema_id}")
async def get_by_id(request: Request, schema_id: int, query: IdQuery) -> Response:
    """The schema with an id. Needs DESCRIBE on the topic of a subject that has it."""
    registry = request.broker.schemas
    stored = await with_id(request, schema_id, query.subject)
    highest = None
    if query.fetch_max_id:
        context = subjects.context_of(stored.subject)
        highest = await registry.ask(lambda machine: machine.state.ids_in(context).highest)
    return answer(schema_string(stored, await registry.formatted(stored, query.format), highest))


@registry_operation("GET", "/schemas/ids/{schema_id}/schema")
async def get_text_by_id(request: Request, schema_id: int, query: IdQuery) -> Response:
    """The text of the schema with an id alone. Needs DESCRIBE on the topic of a subject that has it."""
    stored = await with_id(request, schema_id, query.subject)
    text = await request.broker.schemas.formatted(stored, query.format)
    return answer({})._replace(body=text.encode("utf-8", "surrogatepass"))


@registry_operation("GET", "/schemas/ids/{schema_id}/subjects")
async def list_subjects_of_id(request: Request, schema_id: int, query: IdFilter) -> Response:
    """The subjects that have an id. Those that the client may not describe are left out."""

    def found(machine: SchemaMachine) -> list[str]:
        versions = versions_with(machine, schema_id, query.subject)
        return list(dict.fromkeys(each.subject for each in versions if query.deleted or not each.is_deleted))

    return answer(page_of(rights.shown(request, await request.broker.schemas.ask(found)), query))


@registry_operation("GET", "/schemas/ids/{schema_id}/versions")
async def list_versions_of_id(request: Request, schema_id: int, query: IdFilter) -> Response:
    """The subjects and versions that have an id. Those that the client may not describe are left out."""

    def found(machine: SchemaMachine) -> list[dict[str, Any]]:
        versions = versions_with(machine, schema_id, query.subject)
        names = set(rights.shown(request, {each.subject for each in versions}))
        return [
            {"subject": each.subject, "version": each.version}
            for each in versions
            if each.subject in names and (query.deleted or not each.is_deleted)
        ]

    return answer(page_of(await request.broker.schemas.ask(found), query))


@registry_operation("GET", "/schemas/guids/{guid}")
async def get_by_guid(request: Request, guid: str, query: GuidQuery) -> Response:
    """The schema with a globally unique id, which equal schemas have in all registries. Needs DESCRIBE on its topic."""

    def find(machine: SchemaMachine) -> StoredSchema:
        for context, schema_id in _ids_of_guid(machine, guid):
            return machine.with_id(schema_id, "" if context == DEFAULT_CONTEXT else f":{context}:")
        raise refusals.schema_not_found(guid[:100])

    registry = request.broker.schemas
    stored = await registry.ask(find)
    rights.check(request, Operation.DESCRIBE, stored.subject)
    return answer(schema_string(stored, await registry.formatted(stored, query.format)))


@registry_operation("GET", "/schemas/guids/{guid}/ids")
async def list_ids_of_guid(request: Request, guid: str) -> Response:
    """The ids of a schema, by context. Contexts where the client may not describe it are left out."""

    def found(machine: SchemaMachine) -> list[dict[str, Any]]:
        ids: list[dict[str, Any]] = []
        for context, schema_id in _ids_of_guid(machine, guid):
            prefix = "" if context == DEFAULT_CONTEXT else f":{context}:"
            if rights.shown(request, [each.subject for each in versions_with(machine, schema_id, prefix)]):
                ids.append({"context": context, "id": schema_id})
        return ids

    return answer(await request.broker.schemas.ask(found))


def _ids_of_guid(machine: SchemaMachine, guid: str) -> list[tuple[str, int]]:
    found = ((context, ids.id_of_guid(guid)) for context, ids in machine.state.ids.items())
    return [(context, schema_id) for context, schema_id in found if schema_id is not None]


OPERATIONS = (
    list_schemas,
    list_types,
    get_by_id,
    get_text_by_id,
    list_subjects_of_id,
    list_versions_of_id,
    get_by_guid,
    list_ids_of_guid,
)
