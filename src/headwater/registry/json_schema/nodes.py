"""A JSON Schema as a graph of nodes. What a schema says in several ways at once is a combination of nodes, as in the
library that Confluent's registry uses, because its rules are defined on these."""

from enum import Enum
from typing import Any, Final


class Kind(Enum):
    # Allows everything, nothing.
    EMPTY = "empty"
    NOTHING = "false"
    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NULL = "null"
    OBJECT = "object"
    ARRAY = "array"
    ENUM = "enum"
    CONST = "const"
    COMBINED = "combined"
    NOT = "not"
    CONDITIONAL = "if"
    REFERENCE = "$ref"


class Criterion(Enum):
    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


# Tells no default from the default null.
ABSENT: Final = object()


class Node:
    __slots__ = (
        "additional",
        "allows_additional",
        "children",
        "criterion",
        "default",
        "dependencies",
        "dependent_schemas",
        "description",
        "every_item",
        "id",
        "is_bytes",
        "is_integer",
        "items",
        "keywords",
        "kind",
        "pattern_properties",
        "properties",
        "required",
        "source",
        "title",
        "unevaluated",
    )

    def __init__(self, kind: Kind, source: Any = None) -> None:
        self.kind = kind
        # The JSON that this was made of.
        self.source = source
        self.id: str | None = None
        self.title: str | None = None
        self.description: str | None = None
        self.default: Any = ABSENT
        # Whether Kafka Connect takes it for bytes.
        self.is_bytes = False
        # The limits of strings, numbers, objects and arrays, and the values of `enum` and `const`.
        self.keywords: dict[str, Any] = {}
        # Of COMBINED and NOT; the target of REFERENCE.
        self.children: list[Node] = []
        self.criterion = Criterion.ALL
        # Of NUMBER.
        self.is_integer = False
        # Of OBJECT.
        self.properties: dict[str, Node] = {}
        self.pattern_properties: dict[str, Node] = {}
        self.required: frozenset[str] = frozenset()
        self.dependencies: dict[str, frozenset[str]] = {}
        self.dependent_schemas: dict[str, Node] = {}
        # Of ARRAY: items by position, and one schema for all.
        self.items: list[Node] = []
        self.every_item: Node | None = None
        # Of OBJECT and ARRAY: other properties, or items.
        self.allows_additional = True
        self.additional: Node | None = None
        self.unevaluated: Node | None = None

    @property
    def is_open(self) -> bool:
        """Whether properties or items that it does not name may be anything."""
        return (
            self.allows_additional
            and self.additional is None
            and not self.pattern_properties
            and (self.unevaluated is None or self.unevaluated.kind is Kind.EMPTY)
        )

    def resolved(self) -> "Node":
        """What a reference refers to; the node itself if it is none."""
        node = self
        # A chain of references that ends in itself allows everything.
        seen: set[int] = set()
        while node.kind is Kind.REFERENCE:
            if id(node) in seen or not node.children:
                return Node(Kind.EMPTY)
            seen.add(id(node))
            (node,) = node.children
        return node
