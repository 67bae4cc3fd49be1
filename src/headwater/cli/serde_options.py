"""Options of commands that write or read values instead of bytes: `--value-format`, `--schema` and their like."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from headwater.cli.options import INT32_MAX
from headwater.cli.registry_options import (
    SCHEMA_FILE,
    has_registry,
    read_schema,
    registry_address_option,
    registry_settings,
)
from headwater.printable import printable

if TYPE_CHECKING:
    from headwater.client.consumer import ConsumedRecord
    from headwater.protocol.batches.records import Headers
    from headwater.serde import Serde, Serdes
    from headwater.serde.serde import Side

# `json` is plain JSON, unless a schema is given.
WRITE_FORMATS = ("binary", "string", "json", "avro", "protobuf")
READ_FORMATS = ("auto", "binary", "string", "json", "registry")

Command = TypeVar("Command", bound=Callable[..., object])


class WriteFormat(NamedTuple):
    """What the options of a command say about keys or values."""

    format: str
    schema: Path | None
    schema_id: int | None
    message: str | None
    registry: str | None

    def serde(self) -> "Serde[Any] | None":
        """None where bytes stay as they are."""
        has_schema = self.schema is not None or self.schema_id is not None
        if self.message is not None and self.format != "protobuf":
            raise click.UsageError("--message is for --value-format protobuf")
        if self.format in ("binary", "string"):
            if has_schema:
                raise click.UsageError(f"a schema has no meaning with --value-format {self.format}")
            return open_serdes(None, self.registry).get("string") if self.format == "string" else None
        if self.schema is not None and self.schema_id is not None:
            raise click.UsageError("--schema and --schema-id exclude each other")
        if self.format == "json" and not has_schema:
            return open_serdes(None, self.registry).get("json")
        options: dict[str, Any] = {"schema_id": self.schema_id, "message": self.message, "is_json": True}
        if self.schema is not None:
            options["schema"] = read_schema(self.schema, self.format)
        name = "json-schema" if self.format == "json" else self.format
        return open_serdes(self.format, self.registry).get(name, **options)


def write_format_options(command: Command) -> Command:
    """Adds --value-format, --schema, --schema-id, --message and --registry."""
    # Applied from the last to the first.
    for option in (
        registry_address_option,
        click.option("--message", help="With protobuf: which message of the schema a value is."),
        click.option("--schema-id", type=click.IntRange(0, INT32_MAX), help="The id of the schema of values."),
        click.option("--schema", type=SCHEMA_FILE, help="A file with the schema of values; it is registered."),
        click.option(
            "--value-format",
            type=click.Choice(WRITE_FORMATS),
            default="binary",
            show_default=True,
            help="What values are: see above.",
        ),
    ):
        command = option(command)
    return command


def read_format_options(command: Command) -> Command:
    """Adds --key-format, --value-format and --registry."""
    for option in (
        registry_address_option,
        click.option("--value-format", type=click.Choice(READ_FORMATS), default="auto", show_default=True),
        click.option("--key-format", type=click.Choice(READ_FORMATS), default="auto", show_default=True),
    ):
        command = option(command)
    return command


def open_serdes(needed_by: str | None, registry: str | None) -> "Serdes":
    from headwater.serde import Serdes

    settings = registry_settings(registry)
    if "schema.registry.url" not in settings:
        if needed_by is not None:
            raise click.UsageError(
                f"{needed_by} with a schema needs a schema registry: --registry, HEADWATER_REGISTRY or "
                "schema.registry.url"
            )
        return Serdes()
    serdes = Serdes(settings)
    click.get_current_context().call_on_close(serdes.close)
    return serdes


def value_serializer(chosen: WriteFormat, topic: str, headers: "Headers") -> "Callable[[bytes | None], bytes | None]":
    """What turns a line, or a file, into the bytes of a value: JSON where the format is not `string` or `binary`."""
    serde = chosen.serde()
    if serde is None:
        return lambda content: content
    import orjson

    from headwater.serde import Context, SerdeError

    context = Context(topic, "value", headers)
    count = 0

    def serialized(content: bytes | None) -> bytes | None:
        nonlocal count
        count += 1
        if content is None:
            return None
        try:
            value = content.decode() if chosen.format == "string" else orjson.loads(content)
            return serde.serialize(value, context)
        except (SerdeError, ValueError) as error:
            raise click.ClickException(f"value {count}: {error}") from None

    return serialized


class Decoded(NamedTuple):
    """A key or a value that was decoded, in place of its bytes."""

    value: object


class RecordDecoder:
    """Decodes keys and values as the options say. `auto` decodes what has a schema's number in front, where a registry
    is named and knows it; what it cannot decode stays as it is, with one note."""

    def __init__(self, key_format: str, value_format: str, registry: str | None) -> None:
        self._formats: dict[Side, str] = {"key": key_format, "value": value_format}
        needs = next((f"--{side}-format registry" for side, each in self._formats.items() if each == "registry"), None)
        self._is_idle = set(self._formats.values()) == {"auto"} and not has_registry(registry)
        self._serdes = None if self._is_idle else open_serdes(needs, registry)
        self._is_noted = False

    def decoded(self, record: "ConsumedRecord") -> "ConsumedRecord":
        if self._serdes is None:
            return record
        key, value = self._side(record, "key", record.key), self._side(record, "value", record.value)
        return record._replace(key=cast("bytes", key), value=cast("bytes", value))

    def _side(self, record: "ConsumedRecord", side: "Side", data: bytes | None) -> object:
        from headwater.serde import Context, SerdeError

        assert self._serdes is not None, "it is asked before"
        chosen = self._formats[side]
        if data is None or chosen == "binary":
            return data
        name = chosen
        if chosen == "auto":
            from headwater.serde.framed import has_frame

            if "registry" not in self._serdes.names or not has_frame(data, record.headers, side):
                return data
            name = "registry"
        try:
            return Decoded(self._serdes.get(name).deserialize(data, Context(record.topic, side, record.headers)))
        except SerdeError as error:
            where = f"{record.topic}-{record.partition}, offset {record.offset}: the {side}"
            if chosen != "auto":
                raise click.ClickException(f"{where}: {error}") from None
            if not self._is_noted:
                self._is_noted = True
                click.echo(f"note: {where} is shown as it is: {printable(str(error))}", err=True)
            return data


def as_json(value: object) -> bytes:
    """In one line. Bytes are text with a character for each, as in Avro's own JSON."""
    import orjson

    return orjson.dumps(value, default=_json_value, option=orjson.OPT_NON_STR_KEYS)


def _json_value(value: object) -> object:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
