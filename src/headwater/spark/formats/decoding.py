"""The interface of formats: they decode the bytes of keys or values to a typed Arrow column and a list of bad rows.

Law: whether a row is bad never depends on the other rows. If bulk decoding fails, it is retried on halves, and on small
parts the rows are decoded one by one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.types import DataType

from headwater.spark.arrow import Array
from headwater.spark.formats.types import ArrowType, compute

# For fewer rows, finding the bad ones by bisection costs more than decoding each row on its own.
_SINGLY_MAX: Final = 512
_REASON_LENGTH_MAX: Final = 300


class DecodeFailure(NamedTuple):
    row: int
    reason: str


class Decoded(NamedTuple):
    """`values` has a null for each failed row."""

    values: Array
    failures: Sequence[DecodeFailure]


class Decoder(Protocol):
    """Decodes a column without nulls. `arrow_type` is exactly the type that Spark expects of the values."""

    @property
    def arrow_type(self) -> ArrowType: ...

    def decode(self, column: Array) -> Decoded: ...


class Format(Protocol):
    """The format of a key or value, as given by options. Spark sends it to tasks, so it must be picklable."""

    def column_type(self) -> DataType | str | None:
        """The column's type, or DDL, which only Spark can parse, or None if the user must give it with `.schema()`."""
        ...

    def check(self, column: str, datatype: DataType) -> None:
        """Raise an error if the format cannot produce this type."""
        ...

    def decoder(self, datatype: DataType) -> Decoder: ...


def decode(decoder: Decoder, column: Array) -> Decoded:
    """Decode a column that may contain nulls, which stay null."""
    if column.null_count == 0:
        return decoder.decode(column)
    is_present = column.is_valid()
    rows = compute.indices_nonzero(is_present)
    if len(rows) == 0:
        return Decoded(pa.nulls(len(column), decoder.arrow_type), ())
    found = decoder.decode(column.drop_null())
    places = compute.if_else(is_present, compute.subtract(compute.cumulative_sum(is_present.cast(pa.int64())), 1), None)
    failures = [DecodeFailure(rows[each.row].as_py(), each.reason) for each in found.failures]
    return Decoded(found.values.take(places), failures)


def bisect(items: Any, whole: Callable[[Any], Array], singly: Callable[[Any], Decoded]) -> Decoded:
    """Decode `items` with `whole`, which decodes many rows or raises. After an error try halves, and decode small parts
    with `singly`.

    `items` is a list or an Arrow array: anything that supports slices.
    """
    values: list[Array] = []
    failures: list[DecodeFailure] = []
    waiting = [(0, len(items))]
    while waiting:
        start, end = waiting.pop()
        part = items[start:end]
        try:
            values.append(whole(part))
        except (ValueError, OverflowError):
            if end - start > _SINGLY_MAX:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
                continue
            decoded = singly(part)
            values.append(decoded.values)
            failures += [DecodeFailure(start + row, reason) for row, reason in decoded.failures]
    return Decoded(values[0] if len(values) == 1 else pa.concat_arrays(values), failures)


def build_values(rows: Sequence[Any], build: Callable[[Sequence[Any]], Array]) -> Decoded:
    """Convert Python values to an Arrow column. `build` converts a sequence in which None stands for null."""

    def singly(part: Sequence[Any]) -> Decoded:
        checked: list[Any] = []
        failures: list[DecodeFailure] = []
        for row, value in enumerate(part):
            try:
                build([value])
            except (ValueError, OverflowError) as error:
                failures.append(DecodeFailure(row, reason_of(error)))
                value = None
            checked.append(value)
        return Decoded(build(checked), failures)

    return bisect(rows, build, singly)


def reason_of(error: BaseException) -> str:
    """The error's text, truncated: it may quote the record, and is stored beside it."""
    return (str(error) or type(error).__name__).strip()[:_REASON_LENGTH_MAX]
