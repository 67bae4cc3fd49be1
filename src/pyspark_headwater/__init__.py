"""Found by Spark, which looks into every module named `pyspark_*`: `format("headwater")` needs no registration."""

from headwater.spark.source import HeadwaterDataSource as DefaultSource

__all__ = ["DefaultSource"]
