"""The changes from one JSON Schema to another, found by Confluent's rules.

Each pair of nodes is compared once, and the result is kept relative to the pair. A pair that meets itself again is
taken for compatible; if it turns out otherwise, all is compared again with that known, until nothing new is found.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from headwater.registry.json_schema.changes import LENIENT, STRICT, Change, Difference
from headwater.registry.json_schema.keywords import Found, compare_limits, compare_multiples, frozen, is_same
from headwater.registry.json_schema.matching import matched
from headwater.registry.json_schema.nodes import ABSENT, Criterion, Kind, Node
from headwater.registry.limits import ComparisonBudget, Limits
from headwater.registry.parsed import Policy

Pair = tuple[int, int]
_SUMS: Final = (Criterion.ANY, Criterion.ONE)


def compare(original: Node, update: Node, policy: Policy, limits: Limits) -> list[str]:
    """Why `update` does not read all that follows `original`."""
    compatible = LENIENT if policy is Policy.LENIENT else STRICT
    return [each.message() for each in differences(original, update, policy, limits) if each.change not in compatible]


def differences(original: Node, update: Node, policy: Policy, limits: Limits) -> Sequence[Difference]:
    compatible = LENIENT if policy is Policy.LENIENT else STRICT
    budget = ComparisonBudget(limits)
    incompatible: dict[Pair, Sequence[Difference]] = {}
    while True:
        comparison = _Comparison(compatible, budget, incompatible)
        found = comparison.of(original, update)
        now = comparison.incompatible_pairs()
        if not comparison.assumed_compatible or now.keys() == incompatible.keys():
            return found
        incompatible = now


class _Comparison:
    def __init__(
        self,
        compatible: frozenset[Change],
        budget: ComparisonBudget,
        incompatible: dict[Pair, Sequence[Difference]],
    ) -> None:
        self._compatible = compatible
        self._budget = budget
        self._incompatible = incompatible
        self._known: dict[Pair, Sequence[Difference]] = {}
        self._under_way: set[Pair] = set()
        self.assumed_compatible = False

    def incompatible_pairs(self) -> dict[Pair, Sequence[Difference]]:
        return {pair: found for pair, found in self._known.items() if not self._is_compatible(found)}

    def _is_compatible(self, found: Sequence[Difference]) -> bool:
        return all(each.change in self._compatible for each in found)

    def of(self, original: Node | None, update: Node | None) -> Sequence[Difference]:
        if original is None:
            return [] if update is None else [Difference(Change.SCHEMA_ADDED, ())]
        if update is None:
            return [Difference(Change.SCHEMA_REMOVED, ())]
        original, update = original.resolved(), update.resolved()
        pair = id(original), id(update)
        known = self._known.get(pair)
        if known is not None:
            return known
        if pair in self._under_way:
            if pair in self._incompatible:
                return self._incompatible[pair]
            self.assumed_compatible = True
            return []
        self._budget.take()
        self._under_way.add(pair)
        found = Found()
        self._compare(found, original, update)
        self._under_way.discard(pair)
        # What is passed up the document is copied at each level.
        self._budget.take(len(found.differences))
        self._known[pair] = found.differences
        return found.differences

    def _compare(self, found: Found, original: Node, update: Node) -> None:
        if self._through_combination(found, original, update):
            return
        if original.kind is not update.kind:
            if original.kind is Kind.NOTHING or update.kind is Kind.EMPTY:
                return
            if not (original.is_bytes and update.is_bytes):
                found.add(Change.TYPE_CHANGED)
            return
        if original.id != update.id:
            found.add(Change.ID_CHANGED)
        if original.title != update.title:
            found.add(Change.TITLE_CHANGED)
        if original.description != update.description:
            found.add(Change.DESCRIPTION_CHANGED)
        if original.default != update.default:
            found.add(Change.DEFAULT_CHANGED)
        compare = self._by_kind.get(original.kind)
        if compare is not None:
            compare(self, found, original, update)

    def _through_combination(self, found: Found, original: Node, update: Node) -> bool:
        """Whether one node is compatible with a part of the other, which is a combination."""
        is_combined = original.kind is Kind.COMBINED, update.kind is Kind.COMBINED
        if is_combined == (False, True):
            pairs = [(original, each) for each in update.children]
            combined, change = update, Change.SUM_TYPE_EXTENDED
            is_choice = update.criterion in _SUMS
        elif is_combined == (True, False):
            pairs = [(each, update) for each in original.children]
            combined, change = original, Change.PRODUCT_TYPE_NARROWED
            is_choice = original.criterion is Criterion.ALL
        else:
            return False
        is_single = len(combined.children) == 1
        if not is_single and not is_choice:
            return False
        for first, second in pairs:
            differences = self.of(first, second)
            if self._is_compatible(differences):
                found.add_below(differences)
                if not is_single:
                    found.add(change)
                return True
        return False

    # -- by kind

    def _string(self, found: Found, original: Node, update: Node) -> None:
        compare_limits(found, original, update, ("maxLength", "minLength"))
        before, after = original.keywords.get("pattern"), update.keywords.get("pattern")
        if before != after:
            if before is None:
                found.add(Change.PATTERN_ADDED, "pattern")
            else:
                found.add(Change.PATTERN_REMOVED if after is None else Change.PATTERN_CHANGED, "pattern")

    def _number(self, found: Found, original: Node, update: Node) -> None:
        compare_limits(found, original, update, ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"))
        compare_multiples(found, original.keywords.get("multipleOf"), update.keywords.get("multipleOf"))
        if original.is_integer is not update.is_integer:
            found.add(Change.TYPE_EXTENDED if original.is_integer else Change.TYPE_NARROWED)

    def _constant(self, found: Found, original: Node, update: Node) -> None:
        if not is_same(original.keywords["const"], update.keywords["const"]):
            found.add(Change.ENUM_ARRAY_CHANGED, "const")

    def _enum(self, found: Found, original: Node, update: Node) -> None:
        before, after = ({frozen(value) for value in node.keywords["enum"]} for node in (original, update))
        if before == after:
            return
        if before < after:
            found.add(Change.ENUM_ARRAY_EXTENDED, "enum")
        else:
            found.add(Change.ENUM_ARRAY_NARROWED if after < before else Change.ENUM_ARRAY_CHANGED, "enum")

    def _negation(self, found: Found, original: Node, update: Node) -> None:
        # What must not match is compared the other way round.
        differences = self.of(update.children[0], original.children[0])
        is_narrowed = self._is_compatible(differences)
        found.add(Change.NOT_TYPE_NARROWED if is_narrowed else Change.NOT_TYPE_EXTENDED, "not")

    def _combination(self, found: Found, original: Node, update: Node) -> None:
        before, after = original.criterion, update.criterion
        first, second = _distinct(original.children), _distinct(update.children)
        if before is not after:
            is_single, was_single = len(update.children) == 1, len(original.children) == 1
            is_extended = (
                after is Criterion.ANY
                or (was_single and is_single)
                or (was_single and after is Criterion.ONE)
                or (is_single and before is Criterion.ALL)
            )
            found.add(Change.COMBINED_TYPE_EXTENDED if is_extended else Change.COMBINED_TYPE_CHANGED)
            if not is_extended:
                return
        if len(first) < len(second):
            found.add(Change.PRODUCT_TYPE_EXTENDED if after is Criterion.ALL else Change.SUM_TYPE_EXTENDED)
        elif len(first) > len(second):
            found.add(Change.SUM_TYPE_NARROWED if before in _SUMS else Change.PRODUCT_TYPE_NARROWED)
        edges: dict[tuple[int, int], Sequence[Difference]] = {}
        for row, one in enumerate(first):
            for column, other in enumerate(second):
                self._budget.take()
                differences = self.of(one, other)
                if self._is_compatible(differences):
                    edges[row, column] = differences
        pairs = matched(len(first), len(second), edges.keys(), self._budget)
        for row, column in pairs:
            found.add_below(edges[row, column], before.value, str(row))
        if len(pairs) < min(len(first), len(second)):
            found.add(Change.COMBINED_TYPE_SUBSCHEMAS_CHANGED)

    def _object(self, found: Found, original: Node, update: Node) -> None:
        self._required(found, original, update)
        for name in dict.fromkeys((*original.properties, *update.properties)):
            before, after = original.properties.get(name), update.properties.get(name)
            path = ("properties", name)
            if before is not None and after is not None:
                found.add_below(self.of(before, after), *path)
            elif before is not None:
                self._property_removed(found, before, update, name)
            elif after is not None:
                self._property_added(found, original, update, after, name)
        self._dependencies(found, original, update)
        self._additional(found, original, update, "additionalProperties", "ADDITIONAL_PROPERTIES")
        self._unevaluated(found, original, update, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")
        compare_limits(found, original, update, ("maxProperties", "minProperties"))

    def _required(self, found: Found, original: Node, update: Node) -> None:
        for name in original.properties:
            if name not in update.properties:
                continue
            was, is_now = name in original.required, name in update.required
            if was and not is_now:
                found.add(Change.REQUIRED_ATTRIBUTE_REMOVED, "required", name)
            elif is_now and not was:
                with_default = _has_default(update.properties[name])
                change = (
                    Change.REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED if with_default else Change.REQUIRED_ATTRIBUTE_ADDED
                )
                found.add(change, "required", name)

    def _property_removed(self, found: Found, before: Node, update: Node, name: str) -> None:
        path = ("properties", name)
        if update.is_open:
            found.add(Change.PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL, *path)
            return
        covering = _covering(update, name)
        if covering is not None:
            self._covered(found, before, covering, "PROPERTY_REMOVED", *path)
        elif before.kind is Kind.NOTHING:
            found.add(Change.PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL, *path)
        else:
            found.add(Change.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL, *path)

    def _property_added(self, found: Found, original: Node, update: Node, after: Node, name: str) -> None:
        path = ("properties", name)
        is_required, has_default = name in update.required, _has_default(after)
        if original.is_open:
            if after.kind is Kind.EMPTY:
                change = Change.PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL
            elif is_required and has_default:
                change = Change.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL
            elif is_required:
                change = Change.REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL
            else:
                change = Change.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL
            found.add(change, *path)
            return
        covering = _covering(original, name)
        if covering is not None:
            self._covered(found, covering, after, "PROPERTY_ADDED", *path)
        if is_required and has_default:
            change = Change.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL
        elif is_required:
            change = Change.REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL
        else:
            change = Change.OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL
        found.add(change, *path)

    def _covered(self, found: Found, original: Node, update: Node, change: str, *path: str) -> None:
        """Something was named that a pattern, or the schema of other properties or items, already covered; or no longer
        is."""
        differences = self.of(original, update)
        found.add_below(differences, *path)
        is_covered = "IS" if self._is_compatible(differences) else "NOT"
        found.add(Change[f"{change}_{is_covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"], *path)

    def _dependencies(self, found: Found, original: Node, update: Node) -> None:
        for name in dict.fromkeys((*original.dependencies, *update.dependencies)):
            before, after = original.dependencies.get(name), update.dependencies.get(name)
            if before == after:
                continue
            if after is None:
                change = Change.DEPENDENCY_ARRAY_REMOVED
            elif before is None:
                change = Change.DEPENDENCY_ARRAY_ADDED
            elif before < after:
                change = Change.DEPENDENCY_ARRAY_EXTENDED
            else:
                change = Change.DEPENDENCY_ARRAY_NARROWED if after < before else Change.DEPENDENCY_ARRAY_CHANGED
            found.add(change, "dependencies", name)
        for name in dict.fromkeys((*original.dependent_schemas, *update.dependent_schemas)):
            first, second = original.dependent_schemas.get(name), update.dependent_schemas.get(name)
            if second is None:
                found.add(Change.DEPENDENCY_SCHEMA_REMOVED, "dependencies", name)
            elif first is None:
                found.add(Change.DEPENDENCY_SCHEMA_ADDED, "dependencies", name)
            else:
                found.add_below(self.of(first, second), "dependencies", name)

    def _additional(self, found: Found, original: Node, update: Node, keyword: str, change: str) -> None:
        if original.allows_additional is not update.allows_additional:
            found.add(Change[f"{change}_{'ADDED' if update.allows_additional else 'REMOVED'}"], keyword)
        elif original.additional is None and update.additional is not None:
            found.add(Change[f"{change}_NARROWED"], keyword)
        elif update.additional is None and original.additional is not None:
            found.add(Change[f"{change}_EXTENDED"], keyword)
        else:
            found.add_below(self.of(original.additional, update.additional), keyword)

    def _unevaluated(self, found: Found, original: Node, update: Node, keyword: str, change: str) -> None:
        before, after = original.unevaluated, update.unevaluated
        if before is None and after is None:
            return
        # Absent, what is not evaluated is allowed.
        was = Kind.EMPTY if before is None else before.kind
        is_now = Kind.EMPTY if after is None else after.kind
        if before is not None and after is not None and was is is_now:
            found.add_below(self.of(before, after), keyword)
        elif is_now is Kind.NOTHING:
            found.add(Change[f"{change}_REMOVED"], keyword)
        elif was is Kind.NOTHING:
            found.add(Change[f"{change}_ADDED"], keyword)
        elif before is None or (was is Kind.EMPTY and after is not None):
            found.add(Change[f"{change}_NARROWED"], keyword)
        elif after is None or is_now is Kind.EMPTY:
            found.add(Change[f"{change}_EXTENDED"], keyword)
        else:
            found.add_below(self.of(before, after), keyword)

    def _array(self, found: Found, original: Node, update: Node) -> None:
        found.add_below(self.of(original.every_item, update.every_item), "items")
        common = min(len(original.items), len(update.items))
        for number in range(common):
            found.add_below(self.of(original.items[number], update.items[number]), f"items/{number}")
        for number, before in enumerate(original.items[common:], common):
            self._item_removed(found, before, update, f"items/{number}")
        for number, after in enumerate(update.items[common:], common):
            self._item_added(found, original, after, f"items/{number}")
        self._additional(found, original, update, "additionalItems", "ADDITIONAL_ITEMS")
        self._unevaluated(found, original, update, "unevaluatedItems", "UNEVALUATED_ITEMS")
        compare_limits(found, original, update, ("maxItems", "minItems"))
        was_unique, is_unique = original.keywords["uniqueItems"], update.keywords["uniqueItems"]
        if was_unique is not is_unique:
            found.add(Change.UNIQUE_ITEMS_REMOVED if was_unique else Change.UNIQUE_ITEMS_ADDED, "uniqueItems")
        compare_limits(found, original, update, ("maxContains", "minContains"))

    def _item_removed(self, found: Found, before: Node, update: Node, path: str) -> None:
        if update.is_open:
            found.add(Change.ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL, path)
            return
        covering = _covering(update, None)
        if covering is not None:
            self._covered(found, before, covering, "ITEM_REMOVED", path)
        elif before.kind is Kind.NOTHING:
            found.add(Change.ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)
        else:
            found.add(Change.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)

    def _item_added(self, found: Found, original: Node, after: Node, path: str) -> None:
        if original.is_open:
            is_empty = after.kind is Kind.EMPTY
            found.add(
                Change.ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL
                if is_empty
                else Change.ITEM_ADDED_TO_OPEN_CONTENT_MODEL,
                path,
            )
            return
        covering = _covering(original, None)
        if covering is not None:
            self._covered(found, covering, after, "ITEM_ADDED", path)
        else:
            found.add(Change.ITEM_ADDED_TO_CLOSED_CONTENT_MODEL, path)

    _by_kind: Final[dict[Kind, Callable[["_Comparison", Found, Node, Node], None]]] = {
        Kind.STRING: _string,
        Kind.NUMBER: _number,
        Kind.CONST: _constant,
        Kind.ENUM: _enum,
        Kind.NOT: _negation,
        Kind.COMBINED: _combination,
        Kind.OBJECT: _object,
        Kind.ARRAY: _array,
    }


def _covering(node: Node, name: str | None) -> Node | None:
    """The schema that a property or item which is not named must follow, if there is one."""
    if name is not None:
        for pattern, each in node.pattern_properties.items():
            if _matches(pattern, name):
                return each
    if node.additional is not None:
        return node.additional
    unevaluated = node.unevaluated
    if node.allows_additional and unevaluated is not None and unevaluated.kind not in (Kind.NOTHING, Kind.EMPTY):
        return unevaluated
    return None


def _matches(pattern: str, name: str) -> bool:
    import re2  # noqa: PLC0415 (most schemas have no patterns for names)

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search(name) is not None
    except (cast("type[Exception]", re2.error), UnicodeError):
        # With lookahead or backreferences, which RE2 does not have: no expression may take more than linear time.
        return False


def _has_default(node: Node) -> bool:
    return node.default is not ABSENT


def _distinct(nodes: Sequence[Node]) -> list[Node]:
    distinct: dict[Any, Node] = {}
    for node in nodes:
        distinct.setdefault((node.kind, node.is_integer, frozen(node.source)), node)
    return list(distinct.values())
