"""Values of Avro's types in Python, and the type of a union that a value belongs to."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from headwater.registry.avro.types import AvroType, Kind

INT_LIMIT: Final = 1 << 31
LONG_LIMIT: Final = 1 << 63
# What JSON has no numbers for.
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SHOWN_LENGTH_MAX = 60


def type_name(avro_type: AvroType) -> str:
    """How a union names the type of its value."""
    return avro_type.name or avro_type.kind.value


def number_in_json(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def number_from_json(value: Any) -> Any:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def is_integer(value: Any, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float | bytes | None) else type(value).__name__
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}..."


class UnionChoice:
    """Which type of a union a value belongs to: by its own shape, not by what is in it, so that a choice takes no
    longer the deeper a value is."""

    def __init__(self, branches: Sequence[AvroType], *, is_json: bool) -> None:
        self._branches = branches
        self._is_json = is_json
        self._by_name: dict[str, int] = {}
        for number, branch in enumerate(branches):
            self._by_name[type_name(branch)] = number
        for number, branch in enumerate(branches):
            # Python's libraries write names without their namespaces, too.
            self._by_name.setdefault(branch.simple_name or type_name(branch), number)

    def named(self, value: Mapping[str, Any]) -> int | None:
        """The branch that the value names, as Avro's JSON encoding has it: {"string": "x"}."""
        if not self._is_json or len(value) != 1:
            return None
        return self._by_name.get(next(iter(value)))

    def of(self, value: Any) -> int | None:
        for fits in (self._fits, self._can_hold):
            for number, branch in enumerate(self._branches):
                if fits(branch, value):
                    return number
        return None

    def _fits(self, branch: AvroType, value: Any) -> bool:
        match branch.kind:
            case Kind.NULL:
                return value is None
            case Kind.BOOLEAN:
                return isinstance(value, bool)
            case Kind.INT:
                return is_integer(value, INT_LIMIT)
            case Kind.LONG:
                return is_integer(value, LONG_LIMIT)
            case Kind.FLOAT | Kind.DOUBLE:
                return isinstance(value, float)
            case Kind.STRING:
                return isinstance(value, str)
            case Kind.ENUM:
                return isinstance(value, str) and value in branch.symbol_set
            case Kind.BYTES:
                return isinstance(value, bytes | bytearray)
            case Kind.FIXED:
                return isinstance(value, bytes | bytearray) and len(value) == branch.size
            case Kind.ARRAY:
                return isinstance(value, list | tuple)
            case Kind.RECORD:
                return isinstance(value, dict) and _fits_record(branch, cast("dict[str, Any]", value))
            case Kind.MAP | Kind.UNION:
                return False

    def _can_hold(self, branch: AvroType, value: Any) -> bool:
        """Where no type fits better."""
        match branch.kind:
            case Kind.FLOAT | Kind.DOUBLE:
                return is_integer(value, LONG_LIMIT) or (self._is_json and value in _NOT_FINITE)
            case Kind.BYTES:
                return self._is_json and isinstance(value, str)
            case Kind.FIXED:
                return self._is_json and isinstance(value, str) and len(value) == branch.size
            case Kind.MAP:
                return isinstance(value, dict)
            case _:
                return False


def _fits_record(record: AvroType, value: Mapping[str, Any]) -> bool:
    known = 0
    for field in record.fields:
        if field.name in value:
            known += 1
        elif not field.has_default:
            return False
    return known == len(value)
