"""Events of the schema registry as records of `_schemas`, in the format of Confluent's registry: JSON keys and values.

A registry moves by copying the topic. Records of other kinds are left alone.
"""

import logging
from typing import Any, Final, cast

import orjson

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
from headwater.coordination.schemas.terms import Content, Mode, StoredSchema, SubjectConfig
from headwater.registry.parsed import Reference, SchemaType

logger = logging.getLogger(__name__)

_TENANT: Final = "default"
_NOOP: Final = b'{"keytype":"NOOP","magic":0}'
# Confluent's registry reads no value of a NOOP.
_HIGHEST_IDS: Final = "headwater.ids"


class SchemaFormat:
    def encode(self, event: Event) -> tuple[bytes, bytes | None]:
        match event:
            case SchemaStored(schema):
                return _schema_key(schema.subject, schema.version), _schema_value(schema)
            case SchemaRemoved(subject, version):
                return _schema_key(subject, version), None
            case SubjectDeleted(subject, version):
                return _key("DELETE_SUBJECT", subject), orjson.dumps({"subject": subject, "version": version})
            case SubjectsCleared(subject):
                return _key("CLEAR_SUBJECT", subject), orjson.dumps(_present({"subject": subject}))
            case ConfigStored(subject, config):
                return _key("CONFIG", subject), orjson.dumps(_present({"subject": subject, **config.values}))
            case ConfigRemoved(subject):
                return _key("CONFIG", subject), None
            case ModeStored(subject, mode):
                return _key("MODE", subject), orjson.dumps(_present({"subject": subject, "mode": mode.value}))
            case ModeRemoved(subject):
                return _key("MODE", subject), None
            case ContextStored(context):
                return _context_key(context), orjson.dumps({"tenant": _TENANT, "context": context})
            case ContextRemoved(context):
                return _context_key(context), None
            case IdsReserved(highest):
                return _NOOP, orjson.dumps({_HIGHEST_IDS: dict(highest)})

    def decode(self, key: bytes, value: bytes | None) -> Event | None:
        """None for a record that is of no kind known here, or that is malformed: it may be another program's, and must
        not keep the registry from its schemas."""
        try:
            return _event(orjson.loads(key), None if value is None else orjson.loads(value))
        except (ValueError, KeyError, TypeError) as error:
            logger.warning("a record of the schema registry is not understood (%s): %.200s", error, key)
            return None


def _key(kind: str, subject: str | None) -> bytes:
    return orjson.dumps({"keytype": kind, **_present({"subject": subject}), "magic": 0})


def _schema_key(subject: str, version: int) -> bytes:
    return orjson.dumps({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def _context_key(context: str) -> bytes:
    return orjson.dumps({"keytype": "CONTEXT", "tenant": _TENANT, "context": context, "magic": 0})


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _schema_value(schema: StoredSchema) -> bytes:
    content = schema.content
    value: dict[str, Any] = {"subject": schema.subject, "version": schema.version, "id": schema.id}
    # Avro goes without saying.
    if content.type is not SchemaType.AVRO:
        value["schemaType"] = content.type.value
    if content.references:
        value["references"] = [reference._asdict() for reference in content.references]
    if content.metadata is not None:
        value["metadata"] = content.metadata
    if content.rule_set is not None:
        value["ruleSet"] = content.rule_set
    value |= {"schema": content.text, "deleted": schema.is_deleted}
    return orjson.dumps(value)


def _event(key: dict[str, Any], value: dict[str, Any] | None) -> Event | None:
    subject = cast("str | None", key.get("subject"))
    match key["keytype"]:
        case "SCHEMA":
            if value is None:
                return SchemaRemoved(_text(key, "subject"), _number(key, "version"))
            return SchemaStored(_schema(_text(key, "subject"), _number(key, "version"), value))
        case "DELETE_SUBJECT":
            return None if value is None else SubjectDeleted(_text(key, "subject"), _number(value, "version"))
        case "CLEAR_SUBJECT":
            return None if value is None else SubjectsCleared(subject)
        case "CONFIG":
            return ConfigRemoved(subject) if value is None else ConfigStored(subject, _config(value))
        case "MODE":
            if value is None or value.get("mode") is None:
                return ModeRemoved(subject)
            return ModeStored(subject, Mode(value["mode"]))
        case "CONTEXT":
            context = _text(key, "context")
            return ContextRemoved(context) if value is None else ContextStored(context)
        case "NOOP":
            return _reserved(value)
        case other:
            logger.warning("a record of the schema registry is of the unknown kind %.40s", other)
            return None


def _reserved(value: dict[str, Any] | None) -> IdsReserved | None:
    highest = None if value is None else value.get(_HIGHEST_IDS)
    if not isinstance(highest, dict):
        return None
    stated = cast("dict[str, Any]", highest)
    return IdsReserved({context: _number(stated, context) for context in stated})


def _schema(subject: str, version: int, value: dict[str, Any]) -> StoredSchema:
    references = tuple(
        Reference(_text(each, "name"), _text(each, "subject"), _number(each, "version"))
        for each in cast("list[dict[str, Any]]", value.get("references") or [])
    )
    content = Content(
        SchemaType(value.get("schemaType") or "AVRO"),
        _text(value, "schema"),
        references,
        value.get("metadata"),
        value.get("ruleSet"),
    )
    return StoredSchema(subject, version, _number(value, "id"), content, is_deleted=bool(value.get("deleted")))


def _config(value: dict[str, Any]) -> SubjectConfig:
    return SubjectConfig({name: each for name, each in value.items() if name != "subject" and each is not None})


def _text(of: dict[str, Any], name: str) -> str:
    value = of[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value


def _number(of: dict[str, Any], name: str) -> int:
    value = of[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is not a number")
    return value
