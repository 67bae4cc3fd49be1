"""Nanoseconds per row and million rows per second from fetched bytes to columns and back, next to records one by one.

Run `python setup.py build_ext --inplace` first: without it the numbers are those of plain Python.
"""

import time
from collections.abc import Callable

from headwater.protocol.batches import batch, columns, records, rows
from headwater.protocol.batches.columns import ColumnBuilder, Columns

COUNT = 10_000
ROUNDS = 31
PARTITION_COUNT = 12
NOW = 1_700_000_000_000
OFFSET_MAX = 2**62


def best_seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def show(name: str, work: Callable[[], object]) -> None:
    seconds = best_seconds(work)
    print(f"{name:44}{seconds / COUNT * 1e9:9.1f} ns/row{COUNT / seconds / 1e6:9.2f} M rows/s")


def decode(payload: memoryview, **asked: bool) -> Columns:
    builder = ColumnBuilder(**asked)
    builder.append(payload, COUNT, 0, NOW, None, 0, OFFSET_MAX)
    return builder.take()


def complete(encoded: rows.EncodedRows) -> None:
    batch.complete(
        encoded.batch,
        record_count=encoded.row_count,
        base_timestamp=encoded.base_timestamp,
        max_timestamp=encoded.max_timestamp,
    )


def encode_groups(encoder: rows.RowEncoder) -> None:
    order, groups = rows.group_rows(encoder.partition_rows(PARTITION_COUNT), PARTITION_COUNT)
    for group in groups:
        start = group.start
        while start < group.stop:
            encoded = encoder.encode_rows(NOW, selection=order, start=start, stop=group.stop, bytes_max=2**20)
            start += encoded.row_count


def measure(value_bytes: int, headers: records.Headers) -> None:
    value = bytes(index % 251 for index in range(value_bytes))
    made = [records.Record(index, NOW + index, b"key-%d" % index, value, headers) for index in range(COUNT)]
    payload = memoryview(records.encode(made, 0, NOW))
    print(f"--- values of {value_bytes} bytes, {len(headers)} headers")
    show("records.decode", lambda: records.decode(payload, COUNT, 0, NOW))
    show("decode: value", lambda: decode(payload, value=True))
    show("decode: offset", lambda: decode(payload, offset=True))
    show(
        "decode: key, value, offset, timestamp",
        lambda: decode(payload, key=True, value=True, offset=True, timestamp=True),
    )
    everything = {"key": True, "value": True, "offset": True, "timestamp": True, "headers": True}
    show("decode: everything", lambda: decode(payload, **everything))
    given = decode(payload, **everything)
    encoder = rows.RowEncoder(given)
    show("records.encode", lambda: records.encode(made, 0, NOW))
    show("check buffers", lambda: rows.RowEncoder(given))
    show("partition", lambda: encoder.partition_rows(PARTITION_COUNT))
    partitions = encoder.partition_rows(PARTITION_COUNT)
    show("group", lambda: rows.group_rows(partitions, PARTITION_COUNT))
    show("encode into one batch", lambda: encoder.encode_rows(NOW, bytes_max=2**30))
    show("encode and complete one batch", lambda: complete(encoder.encode_rows(NOW, bytes_max=2**30)))
    show(f"partition, group, encode for {PARTITION_COUNT} partitions", lambda: encode_groups(encoder))


def main() -> None:
    print("compiled" if columns.COMPILED and rows.COMPILED else "plain Python")
    for value_bytes in (100, 1024):
        for headers in ((), (("trace", b"0123456789abcdef"), ("source", b"orders"))):
            measure(value_bytes, headers)


if __name__ == "__main__":
    main()
