"""The columnar codec in each form that this installation has, and columns told as plain rows."""

import struct
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from headwater.protocol.batches import columns, memory, rows
from headwater.protocol.batches.columns import BytesColumn, Columns, LongColumn
from headwater.protocol.batches.records import Headers, Record

Row = tuple[bytes | None, bytes | None, int, int, Headers]


def _load_pure(name: str) -> Any:
    loader = SourceFileLoader(f"headwater.protocol.pure_{name}", str(Path(memory.__file__).with_name(f"{name}.py")))
    module = module_from_spec(ModuleSpec(loader.name, loader))
    loader.exec_module(module)
    return module


DECODERS: list[Any] = [_load_pure("columns"), *([columns] if columns.COMPILED else [])]
ENCODERS: list[Any] = [_load_pure("rows"), *([rows] if rows.COMPILED else [])]


def variant_name(codec: Any) -> str:
    return "compiled" if codec.COMPILED else "pure"


def is_valid(validity: Any, index: int) -> bool:
    return validity is None or bool(validity[index >> 3] >> (index & 7) & 1)


def strings(column: BytesColumn, count: int) -> list[bytes | None]:
    offsets = struct.unpack_from(f"={count + 1}i", column.offsets)
    return [
        bytes(column.data[offsets[index] : offsets[index + 1]]) if is_valid(column.validity, index) else None
        for index in range(count)
    ]


def numbers(column: LongColumn, count: int) -> tuple[int, ...]:
    assert len(column.data) == 8 * count
    assert column.validity is None
    return struct.unpack(f"={count}q", column.data)


def rows_of(built: Columns) -> list[Row]:
    """Of columns that have everything; times in milliseconds."""
    count = built.row_count
    assert built.key is not None
    assert built.value is not None
    assert built.offset is not None
    assert built.timestamp is not None
    assert built.headers is not None
    lists = struct.unpack(f"={count + 1}i", built.headers.offsets)
    keys = strings(built.headers.keys, lists[-1])
    values = strings(built.headers.values, lists[-1])
    headers = [
        tuple(
            (key.decode(), value)
            for key, value in zip(keys[start:stop], values[start:stop], strict=True)
            if key is not None
        )
        for start, stop in pairwise(lists)
    ]
    assert [is_valid(built.headers.validity, index) for index in range(count)] == [bool(pairs) for pairs in headers]
    times = [time // 1000 for time in numbers(built.timestamp, count)]
    return list(
        zip(
            strings(built.key, count),
            strings(built.value, count),
            numbers(built.offset, count),
            times,
            headers,
            strict=True,
        )
    )


def rows_from(made: list[Record]) -> list[Row]:
    return [(record.key, record.value, record.offset, record.timestamp, record.headers) for record in made]
