"""Whether a schema could be registered, without registering it."""

from typing import Any

import msgspec

from headwater.coordination.schemas.refusals import INVALID_SCHEMA, RegistryRefusal
from headwater.listeners.http.registry import rights
from headwater.listeners.http.registry.answers import answer
from headwater.listeners.http.registry.bodies import SchemaBody, registration_of, version_number
from headwater.listeners.http.registry.declaration import registry_operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.security.acl import Operation


class CompatibilityQuery(msgspec.Struct):
    normalize: bool = False
    # Whether to say why it could not.
    verbose: bool = False


@registry_operation("POST", "/compatibility/subjects/{subject}/versions")
async def check_with_subject(request: Request, subject: str, query: CompatibilityQuery, body: SchemaBody) -> Response:
    """Whether the schema could be the subject's next version, by its compatibility level. Needs DESCRIBE on the
    topic."""
    return await _check(request, subject, None, query, body)


@registry_operation("POST", "/compatibility/subjects/{subject}/versions/{version}")
async def check_with_version(
    request: Request, subject: str, version: str, query: CompatibilityQuery, body: SchemaBody
) -> Response:
    """Whether the schema could follow one version, by the subject's compatibility level. Needs DESCRIBE on the
    topic."""
    return await _check(request, subject, version_number(version), query, body)


async def _check(
    request: Request, subject: str, version: int | None, query: CompatibilityQuery, body: SchemaBody
) -> Response:
    registration = registration_of(subject, body)
    rights.check(request, Operation.DESCRIBE, registration.subject)
    rights.check_references(request, registration.subject, (each.subject for each in registration.content.references))
    try:
        messages = await request.broker.schemas.compatibility(registration, version, normalize=query.normalize)
    except RegistryRefusal as refusal:
        if not query.verbose or refusal.number != INVALID_SCHEMA:
            raise
        messages = [refusal.message]
    found: dict[str, Any] = {"is_compatible": not messages}
    if query.verbose:
        found["messages"] = messages
    return answer(found)


OPERATIONS = (check_with_subject, check_with_version)
