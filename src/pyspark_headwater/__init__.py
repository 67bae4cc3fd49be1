"""Lets Spark find `format("headwater")` without registration: Spark searches every module named `pyspark_*`."""

from headwater.spark.source import HeadwaterDataSource as DefaultSource

__all__ = ["DefaultSource"]
