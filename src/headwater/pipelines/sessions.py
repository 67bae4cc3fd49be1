"""The Spark that a pipeline runs on: embedded in this process, driven by it on a cluster, or served elsewhere.

Declarative pipelines speak Spark Connect, so an embedded Spark serves it too: on a free port of the loopback interface,
to whoever has a token that only this process knows.
"""

import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from headwater.pipelines.project import Place
from headwater.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105
_CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "localhost",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}
# Stack traces of Java tell a person little; the log of an embedded Spark has them.
_TERSE = {"spark.sql.connect.serverStacktrace.enabled": "false"}


# What has not stopped by then ends with this process.
_STOP_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Target:
    """Which Spark. With neither, one that is embedded and uses this machine alone."""

    master: str | None = None
    remote: str | None = None
    config: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return self.remote or self.master or "embedded Spark"


@contextmanager
def connected(name: str, target: Target, place: Place, config: Mapping[str, str]) -> Generator["SparkSession"]:
    """A session that declarative pipelines can use, stopped in the end together with the Spark that it started."""
    settings = {**config, **(target.config or {})}
    if target.remote is not None:
        # What the definitions print goes there.
        place.directory.mkdir(parents=True, exist_ok=True)
        spark = session(name, remote=target.remote, config={**_TERSE, **settings})
        try:
            yield spark
        finally:
            spark.stop()
        return
    token = os.environ.get(_TOKEN) or secrets.token_hex(32)
    embedded = Target(target.master, config={**_CONNECT, "spark.connect.authenticate.token": token, **settings})
    with plain(name, embedded, place) as classic, _environment({_TOKEN: token}):
        # A token is sent over a connection that is not encrypted only if the host goes by this name.
        spark = _connect(f"sc://localhost:{_port(classic)}")
        try:
            # Meanwhile Spark's functions make what Connect understands, and its builder gives this session.
            with _environment({"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_LOCAL_REMOTE": "1"}):
                yield spark
        finally:
            spark.stop()


@contextmanager
def plain(name: str, target: Target, place: Place, *, keeps_tables: bool = True) -> Generator["SparkSession"]:
    """An ordinary session, stopped in the end."""
    if target.remote is not None:
        spark = session(name, remote=target.remote, config=target.config)
    else:
        with error_output_in(place.log):
            directory = place.tables if keeps_tables else None
            spark = session(name, master=target.master, config=target.config, directory=directory)
    try:
        # Spark's builder gives a session of Connect only to those who say where it is, even if there is one already.
        with _environment({"SPARK_REMOTE": target.remote} if target.remote else {}):
            yield spark
    finally:
        _stop(spark)


def _stop(spark: "SparkSession") -> None:
    """From a thread of its own, because this one may have been interrupted in the middle of a call to Spark."""

    def stop() -> None:
        # If its Java is gone, which whoever waits has heard by other ways, there is nothing left to stop.
        with suppress(Exception):
            spark.stop()

    stopping = Thread(target=stop, name="spark-stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_TIMEOUT_S)


@contextmanager
def error_output_in(log: Path) -> Generator[None]:
    """What is started inside, Java above all, writes its errors to a file: a person's terminal is for the pipeline."""
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _connect(url: str) -> "SparkSession":
    """Not through the ordinary builder, which refuses a second kind of session beside the first."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415

    spark = ConnectSession.builder.remote(url).config(map={**_TERSE}).getOrCreate()
    # By default it is tried for ten minutes. This server does not come back.
    spark.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
    return cast("SparkSession", spark)


def is_java_gone() -> bool:
    """Whether the Java that this process started for Spark has ended."""
    from pyspark import SparkContext  # noqa: PLC0415

    gateway = cast("Any", SparkContext)._gateway  # noqa: SLF001
    return gateway is not None and gateway.proc.poll() is not None


def _port(classic: "SparkSession") -> int:
    java = cast("Any", classic.sparkContext)._jvm  # noqa: SLF001
    service = getattr(java, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return getattr(service, "MODULE$").localPort()


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
