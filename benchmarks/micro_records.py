"""Microseconds per record and GB/s of the record codec, pure and compiled, on 100-byte values without headers.

Run `python setup.py build_ext --inplace` first to see the compiled one.
"""

import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

from headwater.protocol.batches import memory, records

COUNT = 10_000
VALUE_BYTES = 100
ROUNDS = 15


def load_pure() -> ModuleType:
    """The source itself, even where an extension module stands in front of it."""
    path = Path(memory.__file__).with_name("records.py")
    loader = SourceFileLoader("headwater.protocol.pure_records", str(path))
    module = module_from_spec(ModuleSpec(loader.name, loader))
    loader.exec_module(module)
    return module


def best_seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def measure(name: str, codec: ModuleType) -> None:
    value = bytes(range(VALUE_BYTES))
    made = [codec.Record(index, 1_700_000_000_000 + index, None, value) for index in range(COUNT)]
    payload = memoryview(codec.encode(made, 0, 1_700_000_000_000))
    for operation, work in {
        "decode": lambda: codec.decode(payload, COUNT, 0, 0),
        "encode": lambda: codec.encode(made, 0, 1_700_000_000_000),
        "validate": lambda: codec.validate(payload, COUNT, keys_required=False),
    }.items():
        seconds = best_seconds(work)
        print(f"{name:9}{operation:12}{seconds / COUNT * 1e6:8.3f} us/record{len(payload) / seconds / 1e9:8.2f} GB/s")


def main() -> None:
    measure("pure", load_pure())
    if records.COMPILED:
        measure("compiled", records)


if __name__ == "__main__":
    main()
