"""Whether a default value fits its Avro type."""

from typing import Any, cast

from headwater.registry.avro.types import AvroType, Kind

_INT_LIMIT = 1 << 31
_LONG_LIMIT = 1 << 63


def fits(avro_type: AvroType, value: Any) -> bool:
    match avro_type.kind:
        case Kind.NULL:
            return value is None
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.INT:
            return _is_integer(value) and -_INT_LIMIT <= value < _INT_LIMIT
        case Kind.LONG:
            return _is_integer(value) and -_LONG_LIMIT <= value < _LONG_LIMIT
        case Kind.FLOAT | Kind.DOUBLE:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Kind.STRING | Kind.BYTES | Kind.FIXED:
            return isinstance(value, str)
        case Kind.ENUM:
            return value in avro_type.symbol_set if isinstance(value, str) else False
        case Kind.ARRAY:
            return isinstance(value, list) and all(fits(avro_type.element, each) for each in cast("list[Any]", value))
        case Kind.MAP:
            values = cast("dict[str, Any]", value).values() if isinstance(value, dict) else None
            return values is not None and all(fits(avro_type.element, each) for each in values)
        case Kind.UNION:
            # Any branch since Avro 1.12; before, the first.
            return any(fits(branch, value) for branch in avro_type.branches)
        case Kind.RECORD:
            return isinstance(value, dict) and _fits_record(avro_type, cast("dict[str, Any]", value))


def _fits_record(record: AvroType, value: dict[str, Any]) -> bool:
    for field in record.fields:
        if field.name in value:
            if not fits(field.type, value[field.name]):
                return False
        elif not field.has_default:
            return False
    return True


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
