"""How long checking a value by a JSON Schema may take, known before it is done, for it cannot be interrupted.

A schema that applies itself twice to the same part of a value (`allOf`, `anyOf`, `$ref`) makes the work double with
each level of the value. `ValidationCost` bounds the steps along one path through a value of a given depth.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from headwater.registry.errors import InvalidSchema
from headwater.registry.json_schema.resources import Resources
from headwater.registry.payloads.codec import DEPTH_MAX

# Along one path through a value: whatever the value, such a check is quick enough.
STEPS_ALWAYS: Final = 400
# Over all parts of a value: a second at most.
STEPS_MAX: Final = 5_000_000
# Bounds the work on the bound: paths by which schemas apply each other to one value, long ones counted for more.
_APPLICATIONS_MAX: Final = 1_000_000
_LENGTH_PER_APPLICATION: Final = 32
_WORK_MAX: Final = 2_000_000

_SAME_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME: Final = ("not", "if", "then", "else")
_SAME_MAPS: Final = ("dependentSchemas", "dependencies")
_DYNAMIC: Final = ("$dynamicRef", "$recursiveRef")
_SIZED: Final = ("properties", "patternProperties", "required", "enum", "dependencies", "dependentRequired")


class _Node:
    """A schema: what it applies to the value itself, and what to the parts of it."""

    __slots__ = ("applied", "items", "keys", "other_items", "other_keys", "same", "weight")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.weight = 1 + sum(len(schema[name]) for name in _SIZED if isinstance(schema.get(name), dict | list))
        self.same: list[_Node] = []
        self.keys: dict[str, _Node] = {}
        # Patterns add up; of properties without a name one of the others applies.
        self.other_keys: list[list[_Node]] = []
        self.items: list[_Node] = []
        self.other_items: list[_Node] = []
        # All schemas that apply to the value along with this one, and how often.
        self.applied: Counter[_Node] = Counter()


class ValidationCost:
    def __init__(self, source: Any, references: Mapping[str, Any]) -> None:
        """Raises InvalidSchema."""
        self._resources = Resources(source, references)
        self._nodes: dict[tuple[int, str], _Node] = {}
        self._dynamic = list(_anchored(source, *references.values()))
        root = self._graph(source)
        nodes = list(self._nodes.values())
        self._applications = 0
        for node in nodes:
            self._apply(node)
        # Of values without parts, with parts, with parts that have parts, ...
        self._steps = [self._own(root)]
        self._count(root, nodes)

    def allows(self, depth: int, parts: int) -> bool:
        """Whether a value of this depth, with so many parts, may be checked."""
        if depth >= len(self._steps):
            return False
        steps = self._steps[depth]
        return steps <= STEPS_ALWAYS or steps * parts <= STEPS_MAX

    # -- the graph

    def _graph(self, source: Any) -> _Node:
        left: list[tuple[Mapping[str, Any], str, _Node]] = []

        def node_of(schema: Any, base: str) -> _Node:
            if not isinstance(schema, dict):
                return _Node({})
            stated = cast("dict[str, Any]", schema)
            base = self._resources.base_of(stated, base)
            known = self._nodes.get((id(stated), base))
            if known is None:
                known = self._nodes[id(stated), base] = _Node(stated)
                left.append((stated, base, known))
            return known

        root = node_of(source, self._resources.base)
        while left:
            schema, base, node = left.pop()
            reference = schema.get("$ref")
            if isinstance(reference, str):
                node.same.append(node_of(*self._resources.find(reference, base)))
            if any(isinstance(schema.get(name), str) for name in _DYNAMIC):
                node.same += [node_of(each, base) for each in self._dynamic]
            for name in _SAME_LISTS:
                node.same += [node_of(each, base) for each in _list(schema, name)]
            node.same += [node_of(schema[name], base) for name in _SAME if name in schema]
            for name in _SAME_MAPS:
                node.same += [node_of(each, base) for each in _map(schema, name).values() if isinstance(each, dict)]
            node.keys = {key: node_of(each, base) for key, each in _map(schema, "properties").items()}
            node.other_keys = [
                [node_of(each, base) for each in _map(schema, "patternProperties").values()],
                [node_of(schema[name], base) for name in ("additionalProperties",) if name in schema],
                [node_of(schema[name], base) for name in ("unevaluatedProperties", "propertyNames") if name in schema],
            ]
            node.items = [node_of(each, base) for name in ("prefixItems", "items") for each in _list(schema, name)]
            node.other_items = [
                node_of(schema[name], base)
                for name in ("items", "additionalItems", "contains", "unevaluatedItems")
                if name in schema and not isinstance(schema[name], list)
            ]
        return root

    # -- what applies to one value

    def _apply(self, node: _Node) -> None:
        """All schemas that apply to the value along with this one."""
        left = [(node, frozenset[int]())]
        while left:
            each, around = left.pop()
            if id(each) in around:
                # It adds nothing: those who check notice it, too.
                continue
            node.applied[each] += 1
            self._applications += 1 + len(around) // _LENGTH_PER_APPLICATION
            if self._applications > _APPLICATIONS_MAX:
                raise InvalidSchema("its parts apply each other too often to check values by it")
            if each.same:
                left += [(inner, around | {id(each)}) for inner in each.same]

    def _own(self, node: _Node) -> int:
        return sum(each.weight * count for each, count in node.applied.items())

    # -- what applies to its parts

    def _count(self, root: _Node, nodes: list[_Node]) -> None:
        own = {node: self._own(node) for node in nodes}
        steps: dict[_Node, int] = dict(own)
        work = sum(len(node.applied) + len(node.keys) + len(node.items) for node in nodes) + 1
        for _ in range(min(DEPTH_MAX + 1, _WORK_MAX // work)):
            deeper = {node: own[node] + _most(node, steps) for node in nodes}
            self._steps.append(deeper.get(root, 1))
            if deeper == steps:
                # No value goes deeper into the schema.
                self._steps += [self._steps[-1]] * (DEPTH_MAX + 2)
                return
            if self._steps[-1] > STEPS_MAX:
                return
            steps = deeper


def _most(node: _Node, steps: Mapping[_Node, int]) -> int:
    """Of any one part of a value."""
    by_key: Counter[str] = Counter()
    other_keys = other_items = 0
    by_index: Counter[int] = Counter()
    for each, count in node.applied.items():
        patterns, additional, always = (
            sum(steps.get(one, 1) for one in group) for group in each.other_keys or [[]] * 3
        )
        unnamed = max(patterns, additional) + always
        other_keys += count * unnamed
        for key, inner in each.keys.items():
            # In place of what is for keys without a name.
            by_key[key] += count * (steps.get(inner, 1) + patterns + always - unnamed)
        rest = sum(steps.get(one, 1) for one in each.other_items)
        other_items += count * rest
        for index, inner in enumerate(each.items):
            by_index[index] += count * steps.get(inner, 1)
    most_key = other_keys + max(0, *by_key.values()) if by_key else other_keys
    most_item = other_items + max(0, *by_index.values()) if by_index else other_items
    return max(most_key, most_item)


def _anchored(*documents: Any) -> Iterator[dict[str, Any]]:
    """Where a dynamic reference may lead: any document, and any part of one with an anchor."""
    left: list[Any] = list(documents)
    for document in documents:
        if isinstance(document, dict):
            yield cast("dict[str, Any]", document)
    while left:
        each = left.pop()
        inner: Iterable[Any] = ()
        if isinstance(each, dict):
            schema = cast("dict[str, Any]", each)
            if isinstance(schema.get("$dynamicAnchor"), str) and schema not in documents:
                yield schema
            inner = schema.values()
        elif isinstance(each, list):
            inner = cast("list[Any]", each)
        left += [item for item in inner if isinstance(item, dict | list)]


def _list(schema: Mapping[str, Any], name: str) -> list[Any]:
    found = schema.get(name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def _map(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = schema.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
