"""Converts one JSON document to the Python values that Arrow accepts for a Spark type, or raises with the reason.

Law: this module alone defines which documents are valid. Bulk decoding (json.py) must agree with it.
"""

import json
import math
import re
from binascii import a2b_base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException
from typing import Any, Final, cast

import orjson
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructType,
    TimestampType,
)

from headwater.spark.formats.string import text_of

Convert = Callable[[Any], Any]

_INTEGER_BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_FLOAT32_MAX: Final = 3.4028235677973366e38
# JSON has no such numbers. These spellings are those that Spark's `from_json` accepts.
_FLOAT_WORDS: Final = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "INF": math.inf,
    "+INF": math.inf,
    "-Infinity": -math.inf,
    "-INF": -math.inf,
}
_DECIMAL: Final = Context(prec=38, rounding=ROUND_HALF_UP)
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_TIMESTAMP_TEXT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ].*", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_SECONDS_MAX: Final = 2**63 // 1_000_000
_QUOTED_MAX: Final = 60


class RowReader:
    def __init__(self, datatype: DataType) -> None:
        self._convert = _converter(datatype)
        # Decimals need all digits, and a float has too few.
        self._keeps_digits = _has_decimal(datatype)

    def read(self, data: bytes) -> Any:
        try:
            document = self._parse(data)
            return None if document is None else self._convert(document)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def _parse(self, data: bytes) -> Any:
        if not self._keeps_digits:
            try:
                return orjson.loads(data)
            except orjson.JSONDecodeError:
                # The cause may be a bare NaN, which many programs write, and which Spark and `json.loads` accept.
                pass
        text, reason = text_of(data)
        if text is None:
            raise ValueError(reason)
        if not text.strip():
            raise ValueError("no JSON: empty")
        try:
            return json.loads(text, parse_float=Decimal if self._keeps_digits else _finite)
        except json.JSONDecodeError as error:
            raise ValueError(f"no JSON: {error}") from None


def _has_decimal(datatype: DataType) -> bool:
    match datatype:
        case StructType():
            return any(_has_decimal(field.dataType) for field in datatype.fields)
        case ArrayType():
            return _has_decimal(datatype.elementType)
        case MapType():
            return _has_decimal(datatype.valueType)
        case _:
            return isinstance(datatype, DecimalType)


def _converter(datatype: DataType) -> Convert:
    """A function that converts non-null values of this type."""
    match datatype:
        case StructType():
            return _struct(datatype)
        case ArrayType():
            return _array(datatype)
        case MapType():
            return _map(datatype)
        case BooleanType():
            return _boolean
        case ByteType() | ShortType() | IntegerType() | LongType():
            return _integer(datatype)
        case FloatType():
            return _float32
        case DoubleType():
            return _float64
        case DecimalType():
            return _decimal(datatype)
        case DateType():
            return _date
        case TimestampType():
            return _timestamp
        case BinaryType():
            return _binary
        case _:
            return _string


def _wrong(wanted: str, found: object) -> ValueError:
    shown = json.dumps(found, default=str)
    shown = shown if len(shown) <= _QUOTED_MAX else f"{shown[:_QUOTED_MAX]}..."
    return ValueError(f"expected {wanted}, found {shown}")


def _struct(datatype: StructType) -> Convert:
    fields = [(field.name, _converter(field.dataType)) for field in datatype.fields]

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _wrong("an object", value)
        document = cast("dict[str, Any]", value)
        found: dict[str, Any] = {}
        for name, field in fields:
            item = document.get(name)
            if item is not None:
                try:
                    item = field(item)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
            found[name] = item
        return found

    return convert


def _array(datatype: ArrayType) -> Convert:
    element = _converter(datatype.elementType)

    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise _wrong("an array", value)
        return [None if item is None else element(item) for item in cast("list[Any]", value)]

    return convert


def _map(datatype: MapType) -> Convert:
    element = _converter(datatype.valueType)

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _wrong("an object", value)
        items = cast("dict[str, Any]", value).items()
        return [(_string(key), None if item is None else element(item)) for key, item in items]

    return convert


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _wrong("true or false", value)
    return value


def _integer(datatype: DataType) -> Convert:
    name = datatype.simpleString()
    limit = 1 << (_INTEGER_BITS[type(datatype)] - 1)

    def convert(value: Any) -> int:
        if type(value) is not int:
            raise _wrong(name, value)
        if not -limit <= value < limit:
            raise ValueError(f"{str(value)[:_QUOTED_MAX]} does not fit into {name}")
        return value

    return convert


def _float64(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in _FLOAT_WORDS:
        return _FLOAT_WORDS[value]
    if type(value) is not int and type(value) is not Decimal:
        raise _wrong("a number", value)
    try:
        return _finite(cast("Any", value))
    except OverflowError:
        raise ValueError(f"{str(value)[:_QUOTED_MAX]} does not fit into double") from None


def _float32(value: Any) -> float:
    number = _float64(value)
    if abs(number) >= _FLOAT32_MAX and math.isfinite(number):
        raise ValueError(f"{number} does not fit into float")
    return number


def _finite(text: str | int | Decimal) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{str(text)[:_QUOTED_MAX]} does not fit into double")
    return number


def _decimal(datatype: DecimalType) -> Convert:
    name = datatype.simpleString()
    step = Decimal(1).scaleb(-datatype.scale)
    limit = Decimal(10) ** (datatype.precision - datatype.scale)

    def convert(value: Any) -> Decimal:
        if type(value) is str and _DECIMAL_TEXT.fullmatch(value):
            value = Decimal(value)
        if type(value) is not int and type(value) is not Decimal:
            raise _wrong(name, value)
        try:
            rounded = Decimal(value).quantize(step, context=_DECIMAL)
        except DecimalException:
            rounded = limit
        if abs(rounded) >= limit:
            raise ValueError(f"{str(value)[:_QUOTED_MAX]} does not fit into {name}")
        return rounded

    return convert


def _date(value: Any) -> int:
    if type(value) is str:
        try:
            return cast("Any", pa.scalar(value).cast(pa.date32())).value
        except (pa.ArrowInvalid, UnicodeEncodeError):
            pass
    raise _wrong('a date such as "2026-01-31"', value)


def _timestamp(value: Any) -> int:
    """Microseconds since 1970. A number in the document means seconds, as in Spark."""
    if type(value) is int and abs(value) < _SECONDS_MAX:
        return value * 1_000_000
    if type(value) is str:
        for kind in (_TIMESTAMP, pa.timestamp("us")):
            try:
                return cast("Any", pa.scalar(value).cast(kind)).value
            except (pa.ArrowInvalid, UnicodeEncodeError):
                continue
        if _TIMESTAMP_TEXT.fullmatch(value):
            # Digits beyond microseconds are truncated.
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                pass
            else:
                return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    raise _wrong('a time such as "2026-01-31T12:00:00Z"', value)


def _binary(value: Any) -> bytes:
    if type(value) is str:
        try:
            return a2b_base64(value, strict_mode=True)
        except ValueError:
            pass
    raise _wrong("base64", value)


def _string(value: Any) -> str:
    """A value that is not a string is kept as JSON text."""
    if type(value) is not str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("a string with half of a surrogate pair") from None
    return value
