"""The types of an Avro schema, as a graph: a name that is used twice is the same object."""

from enum import Enum
from typing import Any


class Kind(Enum):
    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    RECORD = "record"
    ENUM = "enum"
    FIXED = "fixed"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"

    @property
    def is_primitive(self) -> bool:
        return self in _PRIMITIVE

    @property
    def is_named(self) -> bool:
        return self in _NAMED


_PRIMITIVE = frozenset({Kind.NULL, Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.BYTES, Kind.STRING})
_NAMED = frozenset({Kind.RECORD, Kind.ENUM, Kind.FIXED})


class Field:
    __slots__ = ("aliases", "default", "doc", "has_default", "name", "order", "properties", "type")

    def __init__(self, name: str, field_type: "AvroType") -> None:
        self.name = name
        self.type = field_type
        self.doc: str | None = None
        self.order = "ascending"
        self.aliases: list[str] = []
        self.has_default = False
        self.default: Any = None
        self.properties: dict[str, Any] = {}


class AvroType:
    __slots__ = (
        "aliases",
        "branches",
        "default",
        "doc",
        "fields",
        "is_error",
        "items",
        "kind",
        "name",
        "properties",
        "size",
        "symbol_set",
        "symbols",
    )

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        # The full name of a named type.
        self.name = ""
        self.is_error = False
        self.doc: str | None = None
        self.aliases: list[str] = []
        self.fields: list[Field] = []
        self.symbols: list[str] = []
        self.symbol_set: set[str] = set()
        # The default of an enum.
        self.default: str | None = None
        self.size = 0
        # The items of an array, the values of a map.
        self.items: AvroType | None = None
        self.branches: list[AvroType] = []
        self.properties: dict[str, Any] = {}

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def element(self) -> "AvroType":
        assert self.items is not None, "only arrays and maps have elements"
        return self.items
