"""JSON that follows a JSON Schema, checked with the package `jsonschema-rs`: nothing is fetched, patterns run in linear
time, and values nest no deeper than `DEPTH_MAX`."""

from typing import Any, Final, cast
from urllib.parse import urldefrag, urljoin

import orjson

from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.json_schema.schema import JsonSchema
from headwater.registry.payloads.codec import DEPTH_MAX, check_depth

# Of a document that does not say which draft it follows (Confluent's default).
_DEFAULT_DRAFT: Final = "draft-07"
# By a part of `$schema`.
_DRAFTS: Final = {
    "draft-04": "Draft4Validator",
    "draft-06": "Draft6Validator",
    "draft-07": "Draft7Validator",
    "2019-09": "Draft201909Validator",
    "2020-12": "Draft202012Validator",
}
# The base of a document without `$id`.
_BASE: Final = "json-schema:///"
_SHOWN_LENGTH_MAX: Final = 300


class JsonSchemaCodec:
    def __init__(self, schema: JsonSchema) -> None:
        """Raises InvalidSchema."""
        try:
            import jsonschema_rs  # noqa: PLC0415
        except ModuleNotFoundError:
            raise InvalidSchema(
                "checking values by a JSON Schema needs the package jsonschema-rs: pip install 'headwater[schemas]'"
            ) from None
        self._error: type[Exception] = jsonschema_rs.ValidationError
        documents = _documents(schema)
        missing: list[str] = []

        def find(uri: str) -> Any:
            name = urldefrag(uri).url
            if name not in documents:
                missing.append(name)
                raise KeyError(name)
            return documents[name]

        validator_class = getattr(jsonschema_rs, _DRAFTS[_draft(schema.source)])
        try:
            self._validator = validator_class(
                schema.source, retriever=find, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (ValueError, TypeError, KeyError, jsonschema_rs.ReferencingError) as error:
            if missing:
                name = missing[0].removeprefix(_BASE)[:_SHOWN_LENGTH_MAX]
                raise InvalidSchema(f"$ref to {name} leads nowhere: no reference has that name") from None
            raise InvalidSchema(f"the schema cannot check values: {str(error)[:_SHOWN_LENGTH_MAX]}") from None

    def validate(self, payload: bytes | memoryview) -> None:
        self._check(self.decode(payload))

    def decode(self, payload: bytes | memoryview) -> Any:
        """Any JSON, whether it follows the schema or not: it was checked when it was written."""
        content = bytes(payload)
        try:
            value = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise InvalidPayload("", f"this is not JSON: {error}") from None
        # So many brackets cannot be there without as many bytes.
        if content.count(b"{") + content.count(b"[") > DEPTH_MAX:
            check_depth(value)
        return value

    def encode(self, value: Any) -> bytes:
        check_depth(value)
        self._check(value)
        return orjson.dumps(value)

    def _check(self, value: Any) -> None:
        try:
            self._validator.validate(value)
        except self._error as error:
            refused: Any = error
            path = "".join(f"/{each}" for each in refused.instance_path)
            message: str = refused.message
            raise InvalidPayload(path[:_SHOWN_LENGTH_MAX], message[:_SHOWN_LENGTH_MAX]) from None


def _draft(source: Any) -> str:
    stated = cast("dict[str, Any]", source).get("$schema") if isinstance(source, dict) else None
    if isinstance(stated, str):
        for draft in _DRAFTS:
            if draft in stated:
                return draft
    return _DEFAULT_DRAFT


def _documents(schema: JsonSchema) -> dict[str, Any]:
    """What the schema refers to, by all URIs that a reference may have."""
    source = cast("dict[str, Any]", schema.source if isinstance(schema.source, dict) else {})
    identifier = source.get("$id", source.get("id"))
    base = identifier if isinstance(identifier, str) else ""
    documents: dict[str, Any] = {}
    for name, document in schema.references.items():
        for uri in (name, urljoin(base, name), _BASE + name):
            documents.setdefault(urldefrag(uri).url, document)
    return documents
