"""Spark reads and writes topics with `format("headwater")`, which works in any session without further setup.

The public surface, on which users may rely:

- `session()` starts a Spark session that is tuned for one machine, or connects to a cluster or a Connect server;
- `client_options()` returns the options for the brokers and the security that `headwater pipeline run` was given;
- `source_lags()` tells how far a streaming query is behind, from its progress;
- `find_java()` finds the Java runtime for Spark, for programs that start Spark without `session()`;
- `HeadwaterDataSource` is the data source itself. Spark finds it without registration, see `pyspark_headwater`.

Importing this package requires neither Java nor pyspark.
"""

from typing import TYPE_CHECKING, Any

from headwater.spark.environment import client_options
from headwater.spark.java import find_java
from headwater.spark.lag import SourceLag, source_lags

# Not loaded lazily: importing the submodule `session` would replace the attribute of the same name by the module.
from headwater.spark.session import session

if TYPE_CHECKING:
    from headwater.spark.source import HeadwaterDataSource

__all__ = ["HeadwaterDataSource", "SourceLag", "client_options", "find_java", "session", "source_lags"]


def __getattr__(name: str) -> Any:
    # Loaded lazily, because the data source imports pyspark.
    if name == "HeadwaterDataSource":
        from headwater.spark.source import HeadwaterDataSource

        return HeadwaterDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
