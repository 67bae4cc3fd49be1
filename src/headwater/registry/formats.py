"""The formats of schemas. Each is loaded on first use."""

from headwater.registry.limits import DEFAULT_LIMITS, Limits, bounded
from headwater.registry.parsed import Document, ParsedSchema, SchemaType, check_size


@bounded
def parse(document: Document, limits: Limits = DEFAULT_LIMITS, *, is_new: bool = False) -> ParsedSchema:
    """Raises InvalidSchema. `is_new` asks for what only new schemas must keep, such as defaults of the right type."""
    check_size(document, limits)
    match document.type:
        case SchemaType.AVRO:
            from headwater.registry.avro import schema  # noqa: PLC0415

            return schema.parse(document, limits, is_new=is_new)
        case SchemaType.JSON:
            from headwater.registry.json_schema import loader  # noqa: PLC0415

            return loader.parse(document, limits)
        case SchemaType.PROTOBUF:
            from headwater.registry.protobuf import schema as protobuf_schema  # noqa: PLC0415

            return protobuf_schema.parse(document, limits)


@bounded
def normalized(schema: ParsedSchema) -> ParsedSchema:
    return schema.normalized()


@bounded
def are_equivalent(first: ParsedSchema, second: ParsedSchema) -> bool:
    return first.type is second.type and first.equivalent(second)


@bounded
def in_form(schema: ParsedSchema, form: str) -> str:
    """The text in a form that clients ask for by name."""
    return schema.in_form(form)
