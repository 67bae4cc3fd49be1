"""Bodies of the registry's answers, and how it tells errors."""

from typing import Any

import msgspec
import orjson

from headwater.coordination.schemas.refusals import RegistryRefusal
from headwater.coordination.schemas.terms import Json, StoredSchema, SubjectConfig
from headwater.errors import ErrorCode, HeadwaterError
from headwater.listeners.http.problem import Rejection, status_of
from headwater.listeners.http.registry.declaration import ANSWER_TYPE
from headwater.listeners.http.response import Response
from headwater.registry.parsed import SchemaType

FORBIDDEN = 40301


class ErrorMessage(msgspec.Struct):
    """Why a request was refused: Confluent's code, whose first three digits are the status, and a text for people."""

    error_code: int
    message: str


def render_error(error: HeadwaterError) -> Response:
    status, headers = status_of(error), ()
    if isinstance(error, RegistryRefusal):
        status, number, text = error.status, error.number, error.message
    else:
        number, text = status, str(error)
        if status == 403 and error.code is not ErrorCode.INVALID_REQUEST:
            number = FORBIDDEN
        headers = error.headers if isinstance(error, Rejection) else ()
    body = msgspec.json.encode(ErrorMessage(number, text))
    return Response(status, body, ANSWER_TYPE, headers)


def answer(body: object) -> Response:
    return Response(200, orjson.dumps(body), ANSWER_TYPE)


def schema_body(stored: StoredSchema, text: str | None = None) -> dict[str, Any]:
    """A version of a subject. What is empty is left out, and the type of Avro."""
    content = stored.content
    body: dict[str, Any] = {
        "subject": stored.subject,
        "version": stored.version,
        "id": stored.id,
        "guid": content.guid,
    }
    if content.type is not SchemaType.AVRO:
        body["schemaType"] = content.type.value
    _add_parts(body, stored)
    body["schema"] = content.text if text is None else text
    if stored.is_deleted:
        body["deleted"] = True
    return body


def schema_string(stored: StoredSchema, text: str, highest_id: int | None = None) -> dict[str, Any]:
    """A schema by its id."""
    body: dict[str, Any] = {
        "subject": stored.subject,
        "version": stored.version,
        "guid": stored.content.guid,
        "schema": text,
    }
    if stored.content.type is not SchemaType.AVRO:
        body["schemaType"] = stored.content.type.value
    _add_parts(body, stored)
    if highest_id is not None:
        body["maxId"] = highest_id
    return body


def _add_parts(body: dict[str, Any], stored: StoredSchema) -> None:
    content = stored.content
    if content.references:
        body["references"] = [reference._asdict() for reference in content.references]
    if content.metadata:
        body["metadata"] = content.metadata
    if content.rule_set:
        body["ruleSet"] = content.rule_set


def config_body(config: SubjectConfig) -> Json:
    return config.values


def config_echo(config: SubjectConfig) -> Json:
    """As the answer to a change names the level."""
    return {("compatibility" if name == "compatibilityLevel" else name): value for name, value in config.values.items()}
