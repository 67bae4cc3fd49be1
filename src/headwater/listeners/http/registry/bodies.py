"""Bodies of requests to the registry. Fields that are not known are ignored, for clients are of all versions."""

from typing import Any

import msgspec

from headwater.coordination.schemas import refusals, subjects
from headwater.coordination.schemas.commands import Registration
from headwater.coordination.schemas.metadata import read_metadata, read_rule_set
from headwater.coordination.schemas.terms import VERSION_MAX, Content
from headwater.registry.parsed import Reference, SchemaType


class ReferenceBody(msgspec.Struct):
    """Another schema that the schema uses, by its name in the text."""

    name: str
    subject: str
    version: int = -1


class SchemaBody(msgspec.Struct, rename="camel"):
    """A schema. Its `schemaType` is AVRO, JSON or PROTOBUF."""

    # Some clients send null for what they do not set.
    schema: str | None = None
    schema_type: str | None = None
    references: list[ReferenceBody] | None = None
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    # Of an import: the number and the id that the schema has elsewhere.
    version: int | None = None
    id: int | None = None


def registration_of(subject: str, body: SchemaBody) -> Registration:
    kind = body.schema_type or SchemaType.AVRO.value
    try:
        schema_type = SchemaType(kind)
    except ValueError:
        raise refusals.invalid_schema(f"Invalid schema type {kind[:100]}") from None
    references = tuple(Reference(each.name, each.subject, each.version) for each in body.references or ())
    content = Content(
        schema_type, body.schema or "", references, read_metadata(body.metadata), read_rule_set(body.rule_set)
    )
    # -1 asks for the next version, too, but has it named in the metadata.
    version = body.version if body.version is not None and -1 <= body.version <= VERSION_MAX else 0
    schema_id = body.id if body.id is not None and 0 <= body.id <= VERSION_MAX else -1
    return Registration(subjects.normalized(subject), content, version, schema_id)


def version_number(text: str) -> int:
    """The number of a version in a path; `latest` and -1 are the latest."""
    if text.lower() in ("latest", "-1"):
        return -1
    if text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= VERSION_MAX:
        return int(text)
    raise refusals.invalid_version(text[:100])
