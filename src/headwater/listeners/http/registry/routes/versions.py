"""Versions of a subject: register, list, read and delete them."""

from typing import Any

import msgspec

from headwater.broker.audit.event import EventType
from headwater.coordination.schemas import refusals, subjects
from headwater.coordination.schemas.machine import SchemaMachine
from headwater.listeners.http.registry import lookup, rights
from headwater.listeners.http.registry.answers import answer, schema_body
from headwater.listeners.http.registry.bodies import SchemaBody, registration_of, version_number
from headwater.listeners.http.registry.declaration import Page, page_of, registry_operation
from headwater.listeners.http.registry.routes.subjects import Deletion
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.registry.parsed import SchemaType
from headwater.security.acl import Operation


class RegistrationQuery(msgspec.Struct):
    normalize: bool = False
    # Skips the check of compatibility.
    force: bool = False
    format: str = ""


class VersionFilter(Page, rename="camel"):
    deleted: bool = False
    deleted_only: bool = False
    deleted_as_negative: bool = False


class VersionQuery(msgspec.Struct, rename="camel"):
    deleted: bool = False
    format: str = ""
    reference_format: str = ""


class ReferrerFilter(Page):
    deleted: bool = False


@registry_operation("POST", "/subjects/{subject}/versions")
async def register(request: Request, subject: str, query: RegistrationQuery, body: SchemaBody) -> Response:
    """Register a schema under the subject, as its next version; gives the id that it has or gets. Needs WRITE on the
    topic."""
    registration = registration_of(subject, body)
    registry = request.broker.schemas
    stored = await lookup.register(request, registration, normalize=query.normalize, is_forced=query.force)
    content = stored.content
    answered: dict[str, Any] = {"id": stored.id, "version": stored.version, "guid": content.guid}
    if content.type is not SchemaType.AVRO:
        answered["schemaType"] = content.type.value
    if content.references:
        answered["references"] = [each._asdict() for each in content.references]
    if content.metadata:
        answered["metadata"] = content.metadata
    if content.rule_set:
        answered["ruleSet"] = content.rule_set
    if query.format or content.metadata or content.rule_set:
        # Otherwise it is the client's own, which some clients need in the form in which they sent it.
        answered["schema"] = await registry.formatted(stored, query.format)
    return answer(answered)


@registry_operation("GET", "/subjects/{subject}/versions")
async def list_versions(request: Request, subject: str, query: VersionFilter) -> Response:
    """The numbers of the subject's versions. Needs DESCRIBE on the topic."""
    name = subjects.normalized(subject)
    rights.check(request, Operation.DESCRIBE, name)

    def numbers(machine: SchemaMachine) -> list[int]:
        with_deleted = query.deleted or query.deleted_only or query.deleted_as_negative
        found = machine.state.versions_of(name, with_deleted=with_deleted)
        if not found:
            raise refusals.subject_not_found(name)
        if query.deleted_as_negative:
            return [-each.version if each.is_deleted else each.version for each in found]
        return [each.version for each in found if each.is_deleted or not query.deleted_only]

    return answer(page_of(await request.broker.schemas.ask(numbers), query))


@registry_operation("GET", "/subjects/{subject}/versions/{version}")
async def get_version(request: Request, subject: str, version: str, query: VersionQuery) -> Response:
    """A version, or the `latest`. Needs DESCRIBE on the topic."""
    name = subjects.normalized(subject)
    rights.check(request, Operation.DESCRIBE, name)
    number, registry = version_number(version), request.broker.schemas
    stored = await registry.ask(lambda machine: machine.existing(name, number, with_deleted=query.deleted))
    body = schema_body(stored, await registry.formatted(stored, query.format))
    if query.reference_format == "qualified" and "references" in body:
        for reference in body["references"]:
            reference["subject"] = subjects.inside_context_of(stored.subject, reference["subject"])
    return answer(body)


@registry_operation("GET", "/subjects/{subject}/versions/{version}/schema")
async def get_version_text(request: Request, subject: str, version: str, query: VersionQuery) -> Response:
    """The text of a version alone. Needs DESCRIBE on the topic."""
    name = subjects.normalized(subject)
    rights.check(request, Operation.DESCRIBE, name)
    number, registry = version_number(version), request.broker.schemas
    stored = await registry.ask(lambda machine: machine.existing(name, number, with_deleted=query.deleted))
    text = await registry.formatted(stored, query.format)
    return answer({})._replace(body=text.encode("utf-8", "surrogatepass"))


@registry_operation("GET", "/subjects/{subject}/versions/{version}/referencedby")
async def list_referrers(request: Request, subject: str, version: str, query: ReferrerFilter) -> Response:
    """The ids of the schemas that refer to a version. Needs DESCRIBE on the topic."""
    name = subjects.normalized(subject)
    rights.check(request, Operation.DESCRIBE, name)
    number = version_number(version)

    def ids(machine: SchemaMachine) -> list[int]:
        stored = machine.existing(name, number, with_deleted=True)
        found = machine.state.referrers_of(stored.subject, stored.version, with_deleted=query.deleted)
        return sorted({each.id for each in found})

    return answer(page_of(await request.broker.schemas.ask(ids), query))


@registry_operation("DELETE", "/subjects/{subject}/versions/{version}")
async def delete_version(request: Request, subject: str, version: str, query: Deletion) -> Response:
    """Delete a version: first softly, then with `permanent=true` for good. Needs DELETE on the topic."""
    name = subjects.normalized(subject)
    rights.check(request, Operation.DELETE, name)
    number = version_number(version)
    details = {"version": version, "permanent": str(query.permanent)}
    with request.guard.change(EventType.SCHEMA_DELETE, f"subject '{name}'", details):
        return answer(await request.broker.schemas.delete_version(name, number, is_permanent=query.permanent))


OPERATIONS = (
    register,
    list_versions,
    get_version,
    get_version_text,
    list_referrers,
    delete_version,
)
