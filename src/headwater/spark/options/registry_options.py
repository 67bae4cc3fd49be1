"""`key.format` and `value.format` = `registry`: the registry, and the version of a subject that is a column's type."""

import os
from dataclasses import dataclass, field
from typing import Final

from headwater.client.errors import ClientError
from headwater.client.registry.settings import URL, read_registry
from headwater.errors import ConfigError
from headwater.serde.schemas import KnownSchema, Schemas
from headwater.serde.serde import SerdeError
from headwater.spark.options.options import Options

COLUMNS: Final = ("key", "value")
NAMES: Final = tuple(f"{column}.{each}" for column in COLUMNS for each in ("subject", "version"))

# One client for each process and registry: a Python worker executes many tasks one after the other.
_schemas: dict[tuple[int, "RegistryAddress"], Schemas] = {}


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    # Not in the repr, because they may contain passwords.
    settings: tuple[tuple[str, str], ...] = field(repr=False)

    def schemas(self) -> Schemas:
        # The process id is part of the key: a forked worker must not share its parent's sockets.
        key = os.getpid(), self
        found = _schemas.get(key)
        if found is None:
            found = _schemas[key] = Schemas(dict(self.settings))
        return found


@dataclass(frozen=True, slots=True)
class RegistryColumn:
    """The schema of a column, as it was when the query was planned."""

    address: RegistryAddress
    subject: str
    schema_id: int
    # Of Protobuf.
    message: str | None

    def known(self) -> KnownSchema:
        return self.address.schemas().by_id(self.schema_id)


def registry_column(options: Options, column: str, topic: str | None) -> RegistryColumn:
    """`topic` is the one that is read or written, if there is only one."""
    settings = options.registry_settings()
    if not settings:
        raise ConfigError(f"option {URL!r} is missing: '{column}.format' = 'registry' needs a schema registry")
    read_registry(settings)
    address = RegistryAddress(tuple(sorted(settings.items())))
    subject = options.text(f"{column}.subject")
    if subject is None:
        if topic is None:
            raise ConfigError(f"option '{column}.subject' is missing: which schema is the type of the column?")
        subject = f"{topic}-{column}"
    version = options.text(f"{column}.version")
    number = None if version in (None, "latest") else options.integer(f"{column}.version")
    schemas = address.schemas()
    try:
        found = schemas.registry.version(subject, "latest" if number is None else number)
        schemas.by_id(found.id)
    except (ClientError, SerdeError) as error:
        raise ConfigError(f"'{column}.format' = 'registry': {error}") from None
    return RegistryColumn(address, subject, found.id, options.text(f"{column}.message"))


def refuse_alone(options: Options, column: str) -> None:
    """Refuse options that have a meaning only with a registry."""
    for name in (f"{column}.subject", f"{column}.version"):
        if options.text(name) is not None:
            raise ConfigError(f"option {name!r} has no meaning without '{column}.format' = 'registry'")
