"""Avro's logical types as Python's: dates, times, decimals and UUIDs."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, Final, cast
from uuid import UUID

from headwater.registry.avro.types import AvroType, Kind
from headwater.registry.errors import InvalidPayload

Convert = Callable[[Any], Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (a local time has no zone)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000
_MICROSECOND: Final = timedelta(microseconds=1)
_DECIMAL_DIGITS_MAX: Final = 10_000


def from_base(avro_type: AvroType) -> Convert | None:
    """What makes Python's value of the one that is stored; None where there is no logical type that is known."""
    match avro_type.kind, avro_type.properties.get("logicalType"):
        case Kind.INT, "date":
            return lambda days: date.fromordinal(_EPOCH_DAY + days)
        case Kind.INT, "time-millis":
            return lambda millis: _time(millis * 1000)
        case Kind.LONG, "time-micros":
            return _time
        case Kind.LONG, "timestamp-millis":
            return lambda millis: _EPOCH + timedelta(milliseconds=millis)
        case Kind.LONG, "timestamp-micros":
            return lambda micros: _EPOCH + timedelta(microseconds=micros)
        case Kind.LONG, "local-timestamp-millis":
            return lambda millis: _LOCAL_EPOCH + timedelta(milliseconds=millis)
        case Kind.LONG, "local-timestamp-micros":
            return lambda micros: _LOCAL_EPOCH + timedelta(microseconds=micros)
        case ((Kind.BYTES | Kind.FIXED), "decimal"):
            scale = _scale(avro_type)
            return None if scale is None else lambda stored: _decimal(stored, scale)
        case Kind.STRING, "uuid":
            return UUID
        case _:
            return None


def converted(convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except (ValueError, OverflowError):
        raise InvalidPayload("", f"{str(value)[:60]} is beyond what Python's type can hold") from None


def to_base(avro_type: AvroType) -> tuple[Callable[[Any], bool], Convert] | None:
    """Which of Python's values a logical type is for, and what makes the stored value of one."""
    logical = avro_type.properties.get("logicalType")
    match avro_type.kind, logical:
        case Kind.INT, "date":
            return _is_date, lambda value: value.toordinal() - _EPOCH_DAY
        case Kind.INT, "time-millis":
            return _is(time), lambda value: _micros_of_day(value) // 1000
        case Kind.LONG, "time-micros":
            return _is(time), _micros_of_day
        case Kind.LONG, "timestamp-millis" | "timestamp-micros":
            unit = 1000 if logical == "timestamp-millis" else 1
            return _is(datetime), lambda value: (_with_zone(value) - _EPOCH) // _MICROSECOND // unit
        case Kind.LONG, "local-timestamp-millis" | "local-timestamp-micros":
            unit = 1000 if logical == "local-timestamp-millis" else 1
            return _is(datetime), lambda value: (value.replace(tzinfo=None) - _LOCAL_EPOCH) // _MICROSECOND // unit
        case ((Kind.BYTES | Kind.FIXED), "decimal"):
            scale = _scale(avro_type)
            if scale is None:
                return None
            size = avro_type.size if avro_type.kind is Kind.FIXED else None
            return _is(Decimal), lambda value: _stored(value, scale, size)
        case Kind.STRING, "uuid":
            return _is(UUID), str
        case _:
            return None


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _is_date(value: Any) -> bool:
    # Python's times are dates, too.
    return isinstance(value, date) and not isinstance(value, datetime)


def _scale(avro_type: AvroType) -> int | None:
    scale = cast("object", avro_type.properties.get("scale", 0))
    return scale if isinstance(scale, int) and 0 <= scale <= _DECIMAL_DIGITS_MAX else None


def _time(micros: int) -> time:
    if not 0 <= micros < _DAY_US:
        raise ValueError("a time of day lies in one day")
    return (_LOCAL_EPOCH + timedelta(microseconds=micros)).time()


def _micros_of_day(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _with_zone(value: datetime) -> datetime:
    """A time without a zone is UTC."""
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _decimal(stored: bytes, scale: int) -> Decimal:
    if len(stored) > _DECIMAL_DIGITS_MAX // 3:
        raise ValueError("the decimal has too many digits")
    number = int.from_bytes(stored, "big", signed=True)
    with localcontext() as context:
        context.prec = _DECIMAL_DIGITS_MAX
        return Decimal(number).scaleb(-scale)


def _stored(value: Decimal, scale: int, size: int | None) -> bytes:
    with localcontext() as context:
        context.prec = _DECIMAL_DIGITS_MAX
        try:
            scaled = value.scaleb(scale)
            number = int(scaled)
        except (InvalidOperation, ValueError, OverflowError):
            raise InvalidPayload("", f"{str(value)[:60]} is no decimal that Avro can hold") from None
        if scaled != number:
            raise InvalidPayload("", f"{str(value)[:60]} has more than {scale} digits behind the point")
    needed = max(1, (number.bit_length() + 8) // 8)
    if size is not None and needed > size:
        raise InvalidPayload("", f"{str(value)[:60]} does not fit into {size} bytes")
    return number.to_bytes(size or needed, "big", signed=True)
