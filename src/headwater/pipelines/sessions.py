"""Sessions for pipelines: on an embedded Spark, on a cluster with its driver here, or on a Spark Connect server.

Declarative pipelines require Spark Connect, so a Spark that this process starts also serves Connect: on a free port of
the loopback interface, protected by a token that only this process knows.
"""

import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from headwater.pipelines.project import RunFiles
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
# Users gain little from Java's stack traces; the log of an embedded Spark contains them.
_TERSE = {"spark.sql.connect.serverStacktrace.enabled": "false"}

_STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
# A Spark that has not stopped by then ends together with this process.
_STOP_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """The Spark to run on. Without master and remote: an embedded Spark that uses this machine only."""

    master: str | None = None
    remote: str | None = None
    config: Mapping[str, str] | None = None

    def with_stop_timeout(self, timeout_ms: int) -> "SparkTarget":
        """The same Spark, where `query.stop()` gives up after this time. Spark's own default is to wait for ever."""
        return replace(self, config={_STOP_TIMEOUT: f"{timeout_ms}ms", **(self.config or {})})

    def __str__(self) -> str:
        return self.remote or self.master or "embedded Spark"


@contextmanager
def pipeline_session(
    name: str, target: SparkTarget, files: RunFiles, config: Mapping[str, str]
) -> Generator["SparkSession"]:
    """Context manager: a session for declarative pipelines, which stops at exit with any Spark started for it."""
    settings = {**config, **(target.config or {})}
    if target.remote is not None:
        # The definitions' output is written to a log in this directory.
        files.directory.mkdir(parents=True, exist_ok=True)
        spark = session(name, remote=target.remote, config={**_TERSE, **settings})
        try:
            yield spark
        finally:
            spark.stop()
        return
    token = os.environ.get(_TOKEN) or secrets.token_hex(32)
    embedded = SparkTarget(target.master, config={**_CONNECT, "spark.connect.authenticate.token": token, **settings})
    with ordinary_session(name, embedded, files) as classic, _environment({_TOKEN: token}):
        # Spark sends a token over an unencrypted connection only if the host is literally "localhost".
        spark = _connect(f"sc://localhost:{_port(classic)}")
        try:
            # With these variables pyspark's functions build Connect expressions, and its builder returns this session.
            with _environment({"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_LOCAL_REMOTE": "1"}):
                yield spark
        finally:
            spark.stop()


@contextmanager
def ordinary_session(
    name: str, target: SparkTarget, files: RunFiles, *, keeps_tables: bool = True
) -> Generator["SparkSession"]:
    """Context manager: a session as scripts and SQL use it, which stops at exit."""
    if target.remote is not None:
        spark = session(name, remote=target.remote, config=target.config)
    else:
        with redirect_stderr(files.log):
            directory = files.tables if keeps_tables else None
            spark = session(name, master=target.master, config=target.config, directory=directory)
    try:
        # pyspark's builder returns an existing Connect session only if the environment names its server.
        with _environment({"SPARK_REMOTE": target.remote} if target.remote else {}):
            yield spark
    finally:
        _stop(spark)


def _stop(spark: "SparkSession") -> None:
    """Stop Spark from a separate thread, because this one may have been interrupted in the middle of a Spark call."""

    def stop() -> None:
        # Fails if Java has died. Then there is nothing left to stop, and the caller already knows of the failure.
        with suppress(Exception):
            spark.stop()

    stopping = Thread(target=stop, name="spark-stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_TIMEOUT_S)


@contextmanager
def redirect_stderr(log: Path) -> Generator[None]:
    """Context manager: child processes started inside, above all Java, write their stderr to the log.

    That keeps the terminal free for the pipeline's own display.
    """
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
    """Create a Connect session directly: pyspark's ordinary builder refuses one beside a classic session."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415

    spark = ConnectSession.builder.remote(url).config(map={**_TERSE}).getOrCreate()
    # The default policy retries for ten minutes, but this server would not come back.
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
