"""Spark's type of the documents that a JSON Schema describes. What has no one type is a string: its JSON."""

from typing import Any, cast

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headwater.errors import ConfigError


def struct_type(option: str, document: Any) -> StructType:
    found = _Types(document).of(document, ())
    if not isinstance(found, StructType):
        raise ConfigError(f"option {option!r}: a JSON Schema becomes columns where it is an object with properties")
    return found


class _Types:
    def __init__(self, document: Any) -> None:
        self._document = document

    def of(self, node: Any, within: tuple[str, ...]) -> DataType:
        if not isinstance(node, dict):
            return StringType()
        schema = cast("dict[str, Any]", node)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found = self._find(reference)
            # One that holds itself can be no column: it stays JSON.
            return StringType() if found is None or reference in within else self.of(found, (*within, reference))
        branches = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(branches, list):
            others = [each for each in cast("list[Any]", branches) if each != {"type": "null"}]
            return self.of(others[0], within) if len(others) == 1 else StringType()
        match _single(schema.get("type")):
            case "object":
                return self._object(schema, within)
            case "array":
                return ArrayType(self.of(schema.get("items"), within))
            case "integer":
                return LongType()
            case "number":
                return DoubleType()
            case "boolean":
                return BooleanType()
            case _:
                return StringType()

    def _object(self, schema: dict[str, Any], within: tuple[str, ...]) -> DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            named = cast("dict[str, Any]", properties)
            return StructType([StructField(name, self.of(each, within)) for name, each in named.items()])
        others = schema.get("additionalProperties")
        return MapType(StringType(), self.of(others, within)) if isinstance(others, dict) else StringType()

    def _find(self, reference: str) -> Any:
        """Inside the document; None for all others."""
        if not reference.startswith("#/"):
            return None
        found = self._document
        for part in reference[2:].split("/"):
            found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
        return found


def _single(kind: Any) -> Any:
    """A type, perhaps one that may also be null."""
    if not isinstance(kind, list):
        return kind
    others = [each for each in cast("list[Any]", kind) if each != "null"]
    return others[0] if len(others) == 1 else None
