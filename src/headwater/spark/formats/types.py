"""Spark's types for formats: which types a read can produce, and their translation to DDL and to Arrow."""

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

ArrowType: TypeAlias = Any  # one of pyarrow's many types; which one is known only at run time
# Typed loosely, because pyarrow's stubs cannot know the types of the results.
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
    """The Arrow type that Spark expects for this type."""
    return to_arrow_type(datatype, timezone="UTC")


def check_readable(path: str, datatype: DataType) -> None:
    """Raise an error for a type that no format can produce. `path` is its position in the schema."""
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
    # Like Spark's own `from_json`: any producer to the topic may omit a field.
    if not is_nullable:
        raise ConfigError(f"{path} is NOT NULL, which no topic can promise: leave that out of the schema")


def nullable(datatype: DataType) -> DataType:
    """The same type with nulls allowed everywhere, for comparing types without regard to nullability."""
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
    """The type as DDL, quoted so that Spark's parser accepts any field name."""
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
    """Raise an error unless the types are equal: a user's schema selects columns but does not convert them."""
    if nullable(datatype) != nullable(known):
        raise ConfigError(
            f"column {column!r} is {known.simpleString()}, not {datatype.simpleString()}: read it as it is and cast it"
        )
