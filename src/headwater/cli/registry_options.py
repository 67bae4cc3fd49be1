"""Options that commands for schemas share: the registry's address, schemas in files, references between schemas."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from headwater.cli.options import client_config_file, client_config_option, client_set
from headwater.errors import ConfigError

if TYPE_CHECKING:
    from headwater.client.registry.schema_registry import Schema, SchemaRegistry
    from headwater.registry.parsed import Reference

REGISTRY = "http://127.0.0.1:8081"
SCHEMA_BYTES_MAX = 16 << 20
_URL = "schema.registry.url"
_TYPES_BY_SUFFIX = {".avsc": "avro", ".proto": "protobuf", ".json": "json"}
SCHEMA_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
TYPES = ("avro", "json", "protobuf")

Command = TypeVar("Command", bound=Callable[..., object])


def registry_address_option(command: Command) -> Command:
    """Adds --registry, which reaches the command as `registry`: None where it is not given."""
    return click.option(
        "--registry",
        metavar="URL",
        envvar="HEADWATER_REGISTRY",
        show_envvar=True,
        callback=_without_secrets,
        help="The schema registry to ask.",
    )(command)


def registry_option(command: Command) -> Command:
    """Adds --registry, --client-config and --client-set."""
    return registry_address_option(client_config_option(command))


def _without_secrets(_ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    if value is not None and "@" in value:
        raise click.UsageError(
            "an address with a password in it can be read by every user of this machine, in the list of processes: put "
            "basic.auth.user.info into a file for --client-config"
        )
    return value


def schema_option(command: Command) -> Command:
    """Adds --type and --reference, which reach the command as `type` and `references`."""
    kind = click.option("--type", type=click.Choice(TYPES), help="By default what the file's suffix says, or avro.")
    reference = click.option(
        "--reference",
        "references",
        type=ReferenceType(),
        multiple=True,
        help="NAME in the text of the schema is that version of SUBJECT; may be repeated.",
    )
    return kind(reference(command))


class ReferenceType(click.ParamType["Reference"]):
    name = "NAME=SUBJECT:VERSION"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> "Reference":
        from headwater.registry.parsed import Reference

        # A subject may contain colons; so may no version.
        name, _, target = value.partition("=")
        subject, _, version = target.rpartition(":")
        if not name or not subject or not version.isascii() or not version.isdigit() or len(version) > 9:
            self.fail(f"{value!r} is not NAME=SUBJECT:VERSION, such as common.proto=common-value:1", param, ctx)
        return Reference(name, subject, int(version))


class VersionType(click.ParamType[object]):
    name = "VERSION"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if value == "latest":
            return value
        if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) == 0:
            self.fail(f"{value!r} is neither a version (1) nor latest", param, ctx)
        return int(value)


def read_schema(file: Path, kind: str | None, references: "tuple[Reference, ...]" = ()) -> "Schema":
    """A schema in a file, or on standard input (-)."""
    from headwater.client.registry.schema_registry import Schema
    from headwater.registry.parsed import SchemaType

    if str(file) == "-":
        content = sys.stdin.buffer.read(SCHEMA_BYTES_MAX + 1)
    else:
        with file.open("rb") as stream:
            content = stream.read(SCHEMA_BYTES_MAX + 1)
    if len(content) > SCHEMA_BYTES_MAX:
        raise click.ClickException(f"{file} is larger than {SCHEMA_BYTES_MAX} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise click.ClickException(f"{file} is not UTF-8") from None
    named = kind or _TYPES_BY_SUFFIX.get(file.suffix, "avro")
    return Schema(text, SchemaType(named.upper()), references)


def open_registry(url: str | None) -> "SchemaRegistry":
    """The registry that --registry, --client-config and --client-set name, or the one on this machine."""
    from headwater.client.registry.schema_registry import SchemaRegistry

    return SchemaRegistry({_URL: REGISTRY, **registry_settings(url)})


def registry_settings(url: str | None) -> dict[str, str]:
    """All settings of the client, with the registry's address if one is named."""
    from headwater.client.registry.settings import read_registry
    from headwater.client.security.properties import read_properties

    file = client_config_file()
    given = ({} if file is None else read_properties(file)) | client_set()
    if url is not None:
        given[_URL] = url
    try:
        read_registry({_URL: REGISTRY, **given})
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}" if file is not None else str(error)) from None
    return given


def has_registry(url: str | None) -> bool:
    """Whether --registry, --client-config or --client-set name one."""
    if url is not None:
        return True
    if client_config_file() is None and not client_set():
        return False
    return _URL in registry_settings(None)
