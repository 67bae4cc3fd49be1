"""`key.format`, `value.format` and the options that belong to them: how bytes become typed columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.errors import ConfigError
from headwater.spark.formats.avro import AvroFormat
from headwater.spark.formats.decoding import Format
from headwater.spark.formats.json import JsonFormat
from headwater.spark.formats.proto_schema import compile_schema
from headwater.spark.formats.protobuf import ProtobufFormat
from headwater.spark.formats.string import StringFormat
from headwater.spark.options import registry_options
from headwater.spark.options.options import Options
from headwater.spark.options.topic_choice import topic_choice
from headwater.spark.reads.bad_records import OPTION, BadRecordPolicy, bad_record_policy

_COLUMNS: Final = ("key", "value")
_FORMATS: Final = ("json", "string", "avro", "protobuf", "registry", "binary")
NAMES: Final = (
    *(f"{column}.{each}" for column in _COLUMNS for each in ("format", "schema", "message")),
    *registry_options.NAMES,
    OPTION,
)


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The formats by column. A column without one stays bytes."""

    formats: Mapping[str, Format] = field(default_factory=dict[str, Format])
    bad_records: BadRecordPolicy = field(default_factory=BadRecordPolicy)


def format_options(options: Options) -> FormatOptions:
    formats: dict[str, Format] = {}
    for column in _COLUMNS:
        found = _format(options, column)
        if found is not None:
            formats[column] = found
    if not formats and options.text(OPTION) is not None:
        raise ConfigError(f"option {OPTION!r} has no meaning without 'key.format' or 'value.format'")
    return FormatOptions(formats, bad_record_policy(options))


def _format(options: Options, column: str) -> Format | None:
    kind = options.choice(f"{column}.format", _FORMATS, "binary")
    option = f"{column}.schema"
    schema = options.text(option)
    message = options.text(f"{column}.message")
    if kind == "registry":
        return _from_registry(options, column, schema)
    registry_options.refuse_alone(options, column)
    if message is not None and kind != "protobuf":
        raise ConfigError(f"option '{column}.message' has no meaning without '{column}.format' = 'protobuf'")
    if schema is not None and kind in ("binary", "string"):
        raise ConfigError(f"option {option!r} has no meaning where '{column}.format' is {kind!r}")
    match kind:
        case "binary":
            return None
        case "string":
            return StringFormat()
        case "json":
            return JsonFormat(option, schema)
        case _ if schema is None or not schema.strip():
            raise ConfigError(f"option {option!r} is missing: '{column}.format' = {kind!r} needs a schema")
        case "avro":
            return AvroFormat(option, schema)
        case _:
            return ProtobufFormat(option, compile_schema(option, schema), message)


def _from_registry(options: Options, column: str, schema: str | None) -> Format:
    # Late import: few queries use a registry.
    from headwater.spark.formats.registry import registry_format

    if schema is not None:
        raise ConfigError(f"option '{column}.schema' has no meaning where '{column}.format' is 'registry'")
    topics = topic_choice(options)
    names = {*topics.names, *(each.topic for each in topics.partitions)} if topics.pattern is None else set[str]()
    topic = next(iter(names)) if len(names) == 1 else None
    return registry_format(registry_options.registry_column(options, column, topic), f"{column}.format")
