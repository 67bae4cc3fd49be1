"""Topics in SQL: `CREATE TABLE orders USING headwater OPTIONS (subscribe 'orders', ...)`, and views to insert into.

Spark keeps the options of a table in its catalogue, but does not hand them to a source written in Python. It does
hand over the schema of a table that is read, so the options are kept in the metadata of the schema's first column.

Law: a write never takes options from metadata. The metadata of the rows that a statement inserts may be those of the
table that they come from.
"""

from collections.abc import Mapping
from typing import Final, cast

from pyspark.sql.types import StructField, StructType

from headwater.errors import ConfigError
from headwater.spark.options.broker_address import BOOTSTRAP
from headwater.spark.options.options import CLIENT_PREFIX
from headwater.spark.options.read_options import INCLUDE_HEADERS, check_options
from headwater.spark.options.topic_choice import CHOICES
from headwater.spark.options.write_options import write_options
from headwater.spark.reads.columns import read_schema
from headwater.spark.source_name import NAME

_METADATA: Final = "headwater.options"
# Spark passes all properties of a new table: the options with this prefix, and beside them others of its own.
_OPTION: Final = "option."
_PROVIDER: Final = "provider"
_SERVERS: Final = frozenset({BOOTSTRAP, CLIENT_PREFIX + BOOTSTRAP})
# A schema is copied into views, into other tables and into Parquet files.
_SECRETS: Final = ("password", "jaas", "secret", "token", "auth.", "ssl.keystore.key", "ssl.key.pem")


def created(properties: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a table that `CREATE TABLE` is about to create. None: these are the options of a read."""
    if properties.get(_PROVIDER, "").lower() != NAME:
        return None
    return {name[len(_OPTION) :]: value for name, value in properties.items() if name.lower().startswith(_OPTION)}


def schema(options: Mapping[str, str]) -> StructType:
    """The schema that a new table gets: the columns of a read, which remember the options."""
    for name in options:
        if any(secret in name.lower() for secret in _SECRETS):
            raise ConfigError(
                f"option {name!r} would be kept in the table's schema, where everyone can read it: give it to each "
                "statement, behind WITH"
            )
    check_options(options)
    columns = read_schema(options)
    if isinstance(columns, str):
        raise ConfigError(
            "the schema of a table's format is JSON, not DDL: give the JSON of the StructType as 'value.schema'"
        )
    first, *rest = columns.fields
    metadata = {**first.metadata, _METADATA: dict(options)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *rest])


def target(options: Mapping[str, str]) -> StructType | None:
    """The schema of a view to insert into, which has the options of a write. None: these are the options of a read."""
    names = {name.lower() for name in options}
    if "topic" not in names or any(choice.lower() in names for choice in CHOICES):
        return None
    write_options(options, is_streaming=True)
    columns = read_schema({INCLUDE_HEADERS: "true"})
    assert isinstance(columns, StructType), "bytes have a schema of their own"
    return columns


def read_options(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """The options of a read: those of the statement, and those of the table if it reads one."""
    if any(name.lower() in _SERVERS for name in given):
        # No statement about a table.
        return given
    overridden = {name.lower() for name in given}
    return {name: value for name, value in _kept(schema).items() if name.lower() not in overridden} | dict(given)


def _kept(schema: StructType) -> Mapping[str, str]:
    for column in schema.fields:
        if _METADATA in column.metadata:
            return cast("Mapping[str, str]", column.metadata[_METADATA])
    return {}
