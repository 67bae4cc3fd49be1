"""Spark sessions of tests."""

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from subprocess import Popen

    from pyspark.sql import SparkSession


def stop(running: "SparkSession") -> None:
    """Ends the session and its Java, which would otherwise live on until this process ends."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    running.stop()
    assert gateway is not None
    gateway.shutdown()
    process = cast("Popen[bytes]", gateway.proc)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None
