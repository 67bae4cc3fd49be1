"""Spark's types as formats need them: which can be read, as DDL, and as Arrow's."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.errors import ConfigError
from headwater.spark.arrow import Array

ArrowType: TypeAlias = Any  # which of pyarrow's many types it is, is known only at run time
# So that the stubs cannot tell what these give.
array: Callable[..., Array] = pa.array
compute: Any = pyarrow.compute

_SIMPLE: Final = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)


def arrow_type(datatype: DataType) -> ArrowType:
    """What Spark expects a batch to hold for this type."""
    return to_arrow_type(datatype, timezone="UTC")


def check_readable(path: str, datatype: DataType) -> None:
    """Refuses what no format can give; `path` says where in the schema it is."""
    match datatype:
        case StructType():
            if not datatype.fields:
                raise ConfigError(f"{path} is a struct without fields, which no column can be")
            if len(set(datatype.names)) != len(datatype.names):
                raise ConfigError(f"{path} has two fields of the same name")
            for field in datatype.fields:
                _check_nullable(f"{path}.{field.name}", is_nullable=field.nullable)
                check_readable(f"{path}.{field.name}", field.dataType)
        case ArrayType():
            _check_nullable(f"{path}[]", is_nullable=datatype.containsNull)
            check_readable(f"{path}[]", datatype.elementType)
        case MapType():
            _check_nullable(f"{path}{{}}", is_nullable=datatype.valueContainsNull)
            if not isinstance(datatype.keyType, _SIMPLE):
                raise ConfigError(f"{path} is a map whose keys are {datatype.keyType.simpleString()}: not supported")
            check_readable(f"{path}{{}}", datatype.valueType)
        case _ if not isinstance(datatype, _SIMPLE):
            raise ConfigError(f"{path} is {datatype.simpleString()}, which typed reads do not support")
        case _:
            pass


def _check_nullable(path: str, *, is_nullable: bool) -> None:
    # As in Spark's own `from_json`: whoever writes to a topic may leave anything out.
    if not is_nullable:
        raise ConfigError(f"{path} is NOT NULL, which no topic can promise: leave that out of the schema")


def nullable(datatype: DataType) -> DataType:
    """The same type, with nulls allowed everywhere: two types that differ in nothing else become equal."""
    match datatype:
        case StructType():
            return StructType([StructField(field.name, nullable(field.dataType)) for field in datatype.fields])
        case ArrayType():
            return ArrayType(nullable(datatype.elementType))
        case MapType():
            return MapType(nullable(datatype.keyType), nullable(datatype.valueType))
        case _:
            return datatype


def ddl(datatype: DataType) -> str:
    """As Spark's parser reads it back, whatever the names."""
    match datatype:
        case StructType():
            fields = ", ".join(f"{quoted(field.name)}: {ddl(field.dataType)}" for field in datatype.fields)
            return f"STRUCT<{fields}>"
        case ArrayType():
            return f"ARRAY<{ddl(datatype.elementType)}>"
        case MapType():
            return f"MAP<{ddl(datatype.keyType)}, {ddl(datatype.valueType)}>"
        case _:
            return datatype.simpleString().upper()


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def check_same(column: str, datatype: DataType, known: DataType) -> None:
    """A user's schema picks columns; it does not convert them."""
    if nullable(datatype) != nullable(known):
        raise ConfigError(
            f"column {column!r} is {known.simpleString()}, not {datatype.simpleString()}: read it as it is and cast it"
        )
