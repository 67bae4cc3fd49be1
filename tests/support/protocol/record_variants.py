"""The variants of the record codec in this installation: pure Python, and the compiled extension if present."""

from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from headwater.protocol.batches import memory, records


def _load_pure() -> Any:
    loader = SourceFileLoader("headwater.protocol.pure_records", str(Path(memory.__file__).with_name("records.py")))
    module = module_from_spec(ModuleSpec(loader.name, loader))
    loader.exec_module(module)
    return module


PURE: Any = _load_pure()
VARIANTS: list[Any] = [PURE, *([records] if records.COMPILED else [])]

TIMESTAMPS = st.integers(0, 2**42) | st.sampled_from([0, 1, 2**31, 2**40])
FIELDS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=4).map(tuple)
CONTENTS = st.tuples(TIMESTAMPS, FIELDS, FIELDS, HEADERS)
