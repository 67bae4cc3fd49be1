"""Differences as they are found, and the comparison of keywords whose values are numbers or any JSON."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, cast

from headwater.registry.json_schema.changes import Change, Difference
from headwater.registry.json_schema.nodes import Node


class Found:
    """The differences of one pair, with paths below it."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []

    def add(self, change: Change, *path: str) -> None:
        self.differences.append(Difference(change, path))

    def add_below(self, differences: Sequence[Difference], *path: str) -> None:
        self.differences += [Difference(each.change, path + each.path) for each in differences]


def compare_limits(found: Found, original: Node, update: Node, keywords: Sequence[str]) -> None:
    for keyword in keywords:
        before, after = original.keywords.get(keyword), update.keywords.get(keyword)
        if before == after:
            continue
        if before is None or after is None:
            outcome = "ADDED" if before is None else "REMOVED"
        else:
            outcome = "INCREASED" if before < after else "DECREASED"
        found.add(Change[f"{_LIMIT_NAMES[keyword]}_{outcome}"], keyword)


_LIMIT_NAMES: Final = {
    "maxLength": "MAX_LENGTH",
    "minLength": "MIN_LENGTH",
    "maximum": "MAXIMUM",
    "minimum": "MINIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "maxProperties": "MAX_PROPERTIES",
    "minProperties": "MIN_PROPERTIES",
    "maxItems": "MAX_ITEMS",
    "minItems": "MIN_ITEMS",
    "maxContains": "MAX_CONTAINS",
    "minContains": "MIN_CONTAINS",
}


def compare_multiples(found: Found, before: float | None, after: float | None) -> None:
    if before == after:
        return
    if before is None or after is None:
        found.add(Change.MULTIPLE_OF_ADDED if before is None else Change.MULTIPLE_OF_REMOVED, "multipleOf")
        return
    first, second = Decimal(str(before)), Decimal(str(after))
    if _is_multiple(second, first):
        found.add(Change.MULTIPLE_OF_EXPANDED, "multipleOf")
    else:
        is_reduced = _is_multiple(first, second)
        found.add(Change.MULTIPLE_OF_REDUCED if is_reduced else Change.MULTIPLE_OF_CHANGED, "multipleOf")


def _is_multiple(number: Decimal, of: Decimal) -> bool:
    # Numbers so far apart that the quotient has more digits than Decimal keeps are no multiples that anyone means.
    return bool(of) and abs(number.adjusted() - of.adjusted()) < 25 and number % of == 0


def is_same(first: Any, second: Any) -> bool:
    return frozen(first) == frozen(second)


def frozen(value: Any) -> Any:
    """A JSON value that can be hashed, and that does not take true for 1."""
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return tuple(frozen(each) for each in cast("list[Any]", value))
        case dict():
            return frozenset((key, frozen(each)) for key, each in cast("dict[str, Any]", value).items())
        case _:
            return value
