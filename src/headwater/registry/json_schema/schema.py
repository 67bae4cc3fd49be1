"""A JSON Schema as the registry stores and compares it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import orjson

from headwater.registry.errors import InvalidSchema
from headwater.registry.json_schema.nodes import Kind, Node
from headwater.registry.limits import Limits
from headwater.registry.parsed import ParsedSchema, Policy, SchemaType


class JsonSchema:
    type: ClassVar = SchemaType.JSON

    def __init__(self, source: Any, references: Mapping[str, Any], root: Node, limits: Limits) -> None:
        self.source = source
        self.references = references
        self.root = root
        self._limits = limits
        self.canonical = _dumped(source)

    @property
    def name(self) -> str | None:
        title = cast("dict[str, Any]", self.source).get("title") if isinstance(self.source, dict) else None
        return title if isinstance(title, str) else None

    def normalized(self) -> "JsonSchema":
        normal = JsonSchema(self.source, self.references, self.root, self._limits)
        normal.canonical = _dumped(self.source, orjson.OPT_SORT_KEYS)
        return normal

    def equivalent(self, other: ParsedSchema) -> bool:
        return isinstance(other, JsonSchema) and self.source == other.source

    def check_fields(self) -> None:
        if self.root.kind is Kind.OBJECT:
            for name in self.root.properties:
                if name.startswith("$$"):
                    raise InvalidSchema(f"property '{name}': names must not begin with $$")

    def in_form(self, form: str) -> str:  # noqa: ARG002
        return self.canonical

    def incompatibilities(self, previous: ParsedSchema, policy: Policy) -> Sequence[str]:
        from headwater.registry.json_schema import comparison  # noqa: PLC0415

        assert isinstance(previous, JsonSchema)
        return comparison.compare(previous.root, self.root, policy, self._limits)


def _dumped(source: Any, option: int = 0) -> str:
    try:
        return orjson.dumps(source, option=option).decode()
    except TypeError:
        raise InvalidSchema("the document is nested too deeply (headwater.schemas.depth.max)") from None
