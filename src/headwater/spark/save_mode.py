"""Lets `df.write.format("headwater").save()` append, as the same line does with Spark's Kafka sink.

Spark's default mode, ErrorIfExists, is about tables, and Spark's Kafka sink appends in it. For a source written in
Python Spark refuses this mode before it asks the source, so `session()` has pyspark's writer ask for `append` instead.
"""

from functools import wraps
from typing import Any, Final

from headwater.spark.source_name import NAME

# The names that Spark has for its default mode.
_DEFAULTS: Final = frozenset({"error", "errorifexists", "default"})
_FORMAT, _MODE = "_headwater_format", "_headwater_mode"


def append_by_default(writer: Any) -> None:
    """`writer` is one of pyspark's two classes `DataFrameWriter`: the classic one or that of Spark Connect."""
    if hasattr(writer, _FORMAT):
        return
    set_format, set_mode, save = writer.format, writer.mode, writer.save

    @wraps(set_format)
    def remember_format(self: Any, source: str) -> Any:
        setattr(self, _FORMAT, source)
        return set_format(self, source)

    @wraps(set_mode)
    def remember_mode(self: Any, saveMode: str | None) -> Any:  # noqa: N803 - pyspark's name
        if saveMode:
            setattr(self, _MODE, saveMode)
        return set_mode(self, saveMode)

    @wraps(save)
    def save_or_append(
        self: Any,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 - pyspark's name
        mode: str | None = None,
        *rest: Any,
        **more: Any,
    ) -> None:
        source = format or getattr(self, _FORMAT)
        if source.lower() == NAME and (mode or getattr(self, _MODE)).lower() in _DEFAULTS:
            mode = "append"
        save(self, path, format, mode, *rest, **more)

    setattr(writer, _FORMAT, "")
    setattr(writer, _MODE, "default")
    writer.format, writer.mode, writer.save = remember_format, remember_mode, save_or_append
