"""Adds headers to a column of headers. No Python object is created per row."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from headwater.spark.arrow import HEADERS, Array

# The stubs of its functions do not know all that they take.
pc: Any = pyarrow.compute


def with_headers(lists: Array | None, row_count: int, added: Sequence[tuple[str, Array]]) -> Array:
    """Append a header of this name to each row that has a value for it. `lists` is None if no row has headers yet."""
    names: list[Array] = []
    values: list[Array] = []
    # For each header the number of its row.
    rows: list[Array] = []
    lengths: Array = pa.repeat(pa.scalar(0, pa.int32()), row_count)
    if lists is not None and not pa.types.is_null(lists.type):
        known: Array = lists.cast(HEADERS)
        pairs = known.flatten()
        names.append(pairs.field("key"))
        values.append(pairs.field("value"))
        rows.append(pc.list_parent_indices(known).cast(pa.int32()))
        lengths = pc.coalesce(pc.list_value_length(known), pa.scalar(0, pa.int32()))
    numbers: Array = pa.array(range(row_count), pa.int32())
    for name, column in added:
        is_given: Array = column.is_valid()
        given = column.filter(is_given).cast(pa.binary())
        names.append(pa.repeat(pa.scalar(name, pa.string()), len(given)))
        values.append(given)
        rows.append(numbers.filter(is_given))
        lengths = pc.add(lengths, is_given.cast(pa.int32()))
    # A stable sort: within a row the headers keep the order in which they were gathered.
    order: Array = pc.array_sort_indices(pa.concat_arrays(rows))
    pairs = pa.StructArray.from_arrays(
        [pa.concat_arrays(names).take(order), pa.concat_arrays(values).take(order)], fields=list(HEADERS.value_type)
    )
    offsets: Array = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS)
