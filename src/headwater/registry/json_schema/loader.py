"""JSON Schema, draft 4 to 2020-12: documents become nodes, and references are resolved without being copied."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from headwater.registry.errors import InvalidSchema
from headwater.registry.json_schema.nodes import ABSENT, Criterion, Kind, Node
from headwater.registry.json_schema.resources import Resources
from headwater.registry.json_schema.schema import JsonSchema
from headwater.registry.limits import Budget, Limits
from headwater.registry.parsed import Document, read_json

_OBJECT_KEYWORDS: Final = frozenset(
    {
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
    }
)
_ARRAY_KEYWORDS: Final = frozenset(
    {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems"}
)
_NUMBER_KEYWORDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_STRING_KEYWORDS: Final = frozenset({"minLength", "maxLength", "pattern", "format"})
_SIZES: Final = {
    Kind.STRING: ("minLength", "maxLength"),
    Kind.OBJECT: ("minProperties", "maxProperties"),
    Kind.ARRAY: ("minItems", "maxItems", "minContains", "maxContains"),
}
_TYPES: Final = {
    "string": Kind.STRING,
    "number": Kind.NUMBER,
    "integer": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "null": Kind.NULL,
    "object": Kind.OBJECT,
    "array": Kind.ARRAY,
}
# From 2019-09 on `$ref` has siblings, and `unevaluated…` a meaning.
_MODERN: Final = ("draft/2019-09", "draft/2020-12", "draft/next")


def parse(document: Document, limits: Limits) -> JsonSchema:
    root = read_json(document.text)
    if not isinstance(root, bool | dict):
        raise InvalidSchema("a JSON Schema is an object or a boolean")
    references: dict[str, Any] = {}
    for name, text in document.resolved.items():
        try:
            references[name] = read_json(text)
        except InvalidSchema as error:
            raise InvalidSchema(f"reference '{name}': {error}") from None
    loader = _Loader(cast("Any", root), references, limits)
    return JsonSchema(root, references, loader.load(), limits)


class _Loader:
    def __init__(self, root: Any, references: Mapping[str, Any], limits: Limits) -> None:
        self._root = root
        self._is_modern = _is_modern(root)
        self._resources = Resources(root, references)
        self._budget = Budget(limits)
        # Objects that are referred to are made once, whatever the number of references.
        self._made: dict[int, Node] = {}
        # References that were met and are not resolved yet, with the base of their URI.
        self._open: list[tuple[Node, str, str]] = []

    def load(self) -> Node:
        root = self._node(self._root, self._resources.base, 0)
        # A worklist, not recursion: a chain of references may be as long as the document.
        while self._open:
            node, reference, base = self._open.pop()
            target, base = self._resources.find(reference, base)
            if not isinstance(target, dict):
                node.children.append(self._node(target, base, 0))
                continue
            made = self._made.get(id(cast("Any", target)))
            if made is None:
                made = self._node(target, base, 0)
            node.children.append(made)
        return root

    def _node(self, stated: Any, base: str, depth: int) -> Node:
        self._budget.take(depth)
        if isinstance(stated, bool):
            return Node(Kind.EMPTY if stated else Kind.NOTHING, stated)
        if not isinstance(stated, dict):
            raise InvalidSchema(f"a schema is an object or a boolean, not {_shown(stated)}")
        schema = cast("dict[str, Any]", stated)
        made = self._made.get(id(schema))
        if made is None:
            made = self._made[id(schema)] = self._object(schema, self._resources.base_of(schema, base), depth)
        return made

    def _object(self, schema: dict[str, Any], base: str, depth: int) -> Node:
        parts: list[Node] = []
        if "$ref" in schema:
            reference = schema["$ref"]
            if not isinstance(reference, str):
                raise InvalidSchema(f"$ref is a string, not {_shown(reference)}")
            node = Node(Kind.REFERENCE, schema)
            self._open.append((node, reference, base))
            if not self._is_modern:
                return node
            parts.append(node)
        self._combine(schema, base, depth, parts)
        if not parts:
            node = Node(Kind.EMPTY, schema)
        elif len(parts) == 1:
            node = parts[0]
        else:
            node = Node(Kind.COMBINED, schema)
            node.children = parts
        if node.kind is not Kind.REFERENCE:
            _annotate(node, schema)
        return node

    def _combine(self, schema: dict[str, Any], base: str, depth: int, parts: list[Node]) -> None:
        if "enum" in schema:
            values = schema["enum"]
            if not isinstance(values, list):
                raise InvalidSchema(f"enum is an array, not {_shown(values)}")
            parts.append(_with_keyword(Kind.ENUM, schema, "enum"))
        for criterion in Criterion:
            if criterion.value in schema:
                combined = Node(Kind.COMBINED, schema)
                combined.criterion = criterion
                combined.children = self._list(schema[criterion.value], criterion.value, base, depth)
                parts.append(combined)
        if "not" in schema:
            negated = Node(Kind.NOT, schema)
            negated.children = [self._node(schema["not"], base, depth + 1)]
            parts.append(negated)
        if "const" in schema:
            parts.append(_with_keyword(Kind.CONST, schema, "const"))
        if "if" in schema:
            conditional = Node(Kind.CONDITIONAL, schema)
            conditional.children = [
                self._node(schema[keyword], base, depth + 1) for keyword in ("if", "then", "else") if keyword in schema
            ]
            parts.append(conditional)
        if "type" in schema:
            parts.append(self._typed(schema["type"], schema, base, depth))
        else:
            parts += self._untyped(schema, base, depth)

    def _typed(self, stated: Any, schema: dict[str, Any], base: str, depth: int) -> Node:
        if isinstance(stated, list):
            names = cast("list[Any]", stated)
            combined = Node(Kind.COMBINED, schema)
            combined.criterion = Criterion.ANY
            combined.children = [self._of_type(name, schema, base, depth) for name in names]
            return combined
        return self._of_type(stated, schema, base, depth)

    def _of_type(self, name: Any, schema: dict[str, Any], base: str, depth: int) -> Node:
        kind = _TYPES.get(name) if isinstance(name, str) else None
        if kind is None:
            raise InvalidSchema(f"unknown type: {_shown(name)}")
        node = self._limited(kind, schema, base, depth)
        node.is_integer = name == "integer"
        return node

    def _untyped(self, schema: dict[str, Any], base: str, depth: int) -> list[Node]:
        """What the keywords tell of types that the schema does not name."""
        keywords = (
            (Kind.ARRAY, _ARRAY_KEYWORDS),
            (Kind.OBJECT, _OBJECT_KEYWORDS),
            (Kind.NUMBER, _NUMBER_KEYWORDS),
            (Kind.STRING, _STRING_KEYWORDS),
        )
        return [
            self._limited(kind, schema, base, depth) for kind, of_kind in keywords if not of_kind.isdisjoint(schema)
        ]

    def _limited(self, kind: Kind, schema: dict[str, Any], base: str, depth: int) -> Node:
        node = Node(kind, schema)
        for keyword in _SIZES.get(kind, ()):
            if keyword in schema:
                node.keywords[keyword] = _size(schema[keyword], keyword)
        match kind:
            case Kind.STRING:
                if "pattern" in schema:
                    node.keywords["pattern"] = _string(schema["pattern"], "pattern")
            case Kind.NUMBER:
                _limit_number(node, schema)
            case Kind.OBJECT:
                self._object_keywords(node, schema, base, depth)
            case Kind.ARRAY:
                self._array_keywords(node, schema, base, depth)
            case _:
                pass
        return node

    def _object_keywords(self, node: Node, schema: dict[str, Any], base: str, depth: int) -> None:
        node.properties = self._map(schema, "properties", base, depth)
        node.pattern_properties = self._map(schema, "patternProperties", base, depth)
        # In draft 3, and in some documents since, `required` is a boolean of the property.
        if not isinstance(schema.get("required"), bool):
            node.required = _strings(schema.get("required", []), "required")
        self._additional(node, schema, "additionalProperties", base, depth)
        if self._is_modern and "unevaluatedProperties" in schema:
            node.unevaluated = self._node(schema["unevaluatedProperties"], base, depth + 1)
        if "propertyNames" in schema:
            self._node(schema["propertyNames"], base, depth + 1)
        for name, stated in _mapping(schema, "dependencies").items():
            if isinstance(stated, list):
                node.dependencies[name] = _strings(stated, "dependencies")
            else:
                node.dependent_schemas[name] = self._node(stated, base, depth + 1)
        for name, stated in _mapping(schema, "dependentRequired").items():
            node.dependencies[name] = _strings(stated, "dependentRequired")
        node.dependent_schemas |= self._map(schema, "dependentSchemas", base, depth)

    def _array_keywords(self, node: Node, schema: dict[str, Any], base: str, depth: int) -> None:
        items = schema.get("items", ABSENT)
        if "prefixItems" in schema:
            node.items = self._list(schema["prefixItems"], "prefixItems", base, depth)
            # Since 2020-12 `items` are those behind the ones by position.
            self._additional(node, schema, "items", base, depth)
        elif isinstance(items, list):
            node.items = self._list(items, "items", base, depth)
            self._additional(node, schema, "additionalItems", base, depth)
        else:
            if items is not ABSENT:
                node.every_item = self._node(items, base, depth + 1)
            self._additional(node, schema, "additionalItems", base, depth)
        if "contains" in schema:
            self._node(schema["contains"], base, depth + 1)
        if self._is_modern and "unevaluatedItems" in schema:
            node.unevaluated = self._node(schema["unevaluatedItems"], base, depth + 1)
        unique = schema.get("uniqueItems", False)
        if not isinstance(unique, bool):
            raise InvalidSchema(f"uniqueItems is a boolean, not {_shown(unique)}")
        node.keywords["uniqueItems"] = unique

    def _additional(self, node: Node, schema: dict[str, Any], keyword: str, base: str, depth: int) -> None:
        stated = schema.get(keyword, True)
        if isinstance(stated, bool):
            node.allows_additional = stated
        else:
            node.additional = self._node(stated, base, depth + 1)

    def _map(self, schema: dict[str, Any], keyword: str, base: str, depth: int) -> dict[str, Node]:
        return {name: self._node(each, base, depth + 1) for name, each in _mapping(schema, keyword).items()}

    def _list(self, stated: Any, keyword: str, base: str, depth: int) -> list[Node]:
        if not isinstance(stated, list):
            raise InvalidSchema(f"{keyword} is an array of schemas, not {_shown(stated)}")
        return [self._node(each, base, depth + 1) for each in cast("list[Any]", stated)]


def _is_modern(root: Any) -> bool:
    dialect = cast("dict[str, Any]", root).get("$schema") if isinstance(root, dict) else None
    return isinstance(dialect, str) and any(name in dialect for name in _MODERN)


def _annotate(node: Node, schema: dict[str, Any]) -> None:
    texts: tuple[tuple[str, Callable[[str], None]], ...] = (
        ("title", lambda text: setattr(node, "title", text)),
        ("description", lambda text: setattr(node, "description", text)),
    )
    for keyword, keep in texts:
        if keyword in schema:
            keep(_string(schema[keyword], keyword))
    identifier = schema.get("$id", schema.get("id"))
    node.id = identifier if isinstance(identifier, str) else None
    node.default = schema.get("default", ABSENT)
    node.is_bytes = schema.get("connect.type") == "bytes"


def _with_keyword(kind: Kind, schema: dict[str, Any], keyword: str) -> Node:
    node = Node(kind, schema)
    node.keywords[keyword] = schema[keyword]
    return node


def _limit_number(node: Node, schema: dict[str, Any]) -> None:
    for keyword in _NUMBER_KEYWORDS:
        value = schema.get(keyword)
        # In draft 4 `exclusiveMinimum` and `exclusiveMaximum` are booleans.
        if value is None or (isinstance(value, bool) and keyword.startswith("exclusive")):
            continue
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidSchema(f"{keyword} is a number, not {_shown(value)}")
        node.keywords[keyword] = value


def _mapping(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    stated = schema.get(keyword, {})
    if not isinstance(stated, dict):
        raise InvalidSchema(f"{keyword} is an object, not {_shown(stated)}")
    return cast("dict[str, Any]", stated)


def _size(value: Any, keyword: str) -> int:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != int(value):
        raise InvalidSchema(f"{keyword} is an integer, not {_shown(value)}")
    return int(value)


def _string(value: Any, keyword: str) -> str:
    if not isinstance(value, str):
        raise InvalidSchema(f"{keyword} is a string, not {_shown(value)}")
    return value


def _strings(value: Any, keyword: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in cast("list[Any]", value)):
        raise InvalidSchema(f"{keyword} is an array of strings, not {_shown(value)}")
    return frozenset(cast("list[str]", value))


def _shown(node: Any) -> str:
    text = str(node)
    return text if len(text) <= 100 else f"{text[:100]}..."
