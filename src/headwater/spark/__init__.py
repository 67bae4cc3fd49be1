"""Spark reads and writes topics: `format("headwater")` in any session, `session()` for a well-tuned one.

Neither Java nor pyspark is needed to import this package.
"""

from typing import TYPE_CHECKING, Any

from headwater.spark.environment import client_options

# Not left for later like the last: the module of the same name would take its place as soon as it is imported.
from headwater.spark.session import session

if TYPE_CHECKING:
    from headwater.spark.source import HeadwaterDataSource

__all__ = ["HeadwaterDataSource", "client_options", "session"]


def __getattr__(name: str) -> Any:
    if name == "HeadwaterDataSource":
        from headwater.spark.source import HeadwaterDataSource

        return HeadwaterDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
