"""What a format is: bytes of a key or value to a typed Arrow column, and the rows that could not be read.

Law: what lies beside a row never decides about it. A fast way that fails for many rows is tried on fewer, down to one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.types import DataType

from headwater.spark.arrow import Array
from headwater.spark.formats.types import ArrowType, compute

# Below this, finding the bad rows by halves costs more than reading each.
_SINGLY_MAX: Final = 512
_REASON_LENGTH_MAX: Final = 300


class Failure(NamedTuple):
    row: int
    reason: str


class Decoded(NamedTuple):
    """`values` has a null for every row that failed."""

    values: Array
    failures: Sequence[Failure]


class Decoder(Protocol):
    """Reads a column without nulls. `arrow_type` is exactly what Spark expects of the values."""

    @property
    def arrow_type(self) -> ArrowType: ...

    def decode(self, column: Array) -> Decoded: ...


class Format(Protocol):
    """What options say about a key or value. It travels to tasks, so that it holds only what can be pickled."""

    def column_type(self) -> DataType | str | None:
        """The column's type; or DDL, which Spark alone can read; or None, where the user's `.schema()` has to say."""
        ...

    def check(self, column: str, datatype: DataType) -> None:
        """Refuses a type that this format cannot give."""
        ...

    def decoder(self, datatype: DataType) -> Decoder: ...


def decode(decoder: Decoder, column: Array) -> Decoded:
    """As the decoder does it, with nulls left as they are."""
    if column.null_count == 0:
        return decoder.decode(column)
    is_present = column.is_valid()
    rows = compute.indices_nonzero(is_present)
    if len(rows) == 0:
        return Decoded(pa.nulls(len(column), decoder.arrow_type), ())
    found = decoder.decode(column.drop_null())
    places = compute.if_else(is_present, compute.subtract(compute.cumulative_sum(is_present.cast(pa.int64())), 1), None)
    failures = [Failure(rows[each.row].as_py(), each.reason) for each in found.failures]
    return Decoded(found.values.take(places), failures)


def in_parts(items: Any, whole: Callable[[Any], Array], singly: Callable[[Any], Decoded]) -> Decoded:
    """`whole` reads many rows or raises; where it does, halves are tried, and `singly` reads what is left.

    `items` is a list or an Arrow array: anything that can be cut.
    """
    values: list[Array] = []
    failures: list[Failure] = []
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
            failures += [Failure(start + row, reason) for row, reason in decoded.failures]
    return Decoded(values[0] if len(values) == 1 else pa.concat_arrays(values), failures)


def gathered(rows: Sequence[Any], build: Callable[[Sequence[Any]], Array]) -> Decoded:
    """Python's values to Arrow's. `build` takes None for a null."""

    def singly(part: Sequence[Any]) -> Decoded:
        checked: list[Any] = []
        failures: list[Failure] = []
        for row, value in enumerate(part):
            try:
                build([value])
            except (ValueError, OverflowError) as error:
                failures.append(Failure(row, reason_of(error)))
                value = None
            checked.append(value)
        return Decoded(build(checked), failures)

    return in_parts(rows, build, singly)


def reason_of(error: BaseException) -> str:
    """Short, for it may quote the record, and is stored beside it."""
    return (str(error) or type(error).__name__).strip()[:_REASON_LENGTH_MAX]
