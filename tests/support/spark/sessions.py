"""The Spark session that tests share, and commands that run on it instead of starting a Spark of their own.

Starting Java and Spark takes longer than most tests. The session differs from a user's in what has to be said before
it starts: it also serves Spark Connect, which pipelines need, and has the database name of `headwater sql`.
"""

import os
import secrets
import signal
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast
from unittest.mock import patch

from headwater.pipelines import sessions
from headwater.spark import session
from tests.support.cli.commands import Commands, Outcome

if TYPE_CHECKING:
    from subprocess import Popen

    from pyspark.sql import SparkSession

_TOKEN = secrets.token_hex(32)


def shared_session(directory: Path) -> "SparkSession":
    """`directory` is for Spark's own temporary files."""
    from headwater.pipelines import topic_tables

    early = {
        **sessions._CONNECT,
        "spark.connect.authenticate.token": _TOKEN,
        "spark.sql.globalTempDatabase": topic_tables.DATABASE,
        # Of a flow that fails, Spark would try twice more, with pauses in between.
        "spark.sql.pipelines.maxFlowRetryAttempts": "1",
        "spark.sql.pipelines.execution.watchdog.minRetryTime": "1s",
    }
    return session("headwater-tests", config={"spark.local.dir": str(directory), **early})


class SharedSparkCommands(Commands):
    """Commands that find a session running and leave it running, as it was."""

    def __init__(self, bootstrap: str, spark: "SparkSession") -> None:
        super().__init__(bootstrap)
        self._spark = spark

    def __call__(
        self,
        *arguments: str,
        typed: bytes = b"",
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
        stderr: BinaryIO | None = None,
    ) -> Outcome:
        with _kept(self._spark) if arguments[0] in {"pipeline", "sql"} else nullcontext():
            return super().__call__(*arguments, typed=typed, stdin=stdin, stdout=stdout, stderr=stderr)


@contextmanager
def _kept(spark: "SparkSession") -> Generator[None]:
    settings = dict(spark.conf.getAll)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with patch.object(sessions, "_stop", lambda _: None), patch.dict(os.environ, {sessions._TOKEN: _TOKEN}):
            yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for name, value in dict(spark.conf.getAll).items():
            if name not in settings:
                spark.conf.unset(name)
            elif value != settings[name] and spark.conf.isModifiable(name):
                spark.conf.set(name, settings[name])
        # Those of pipelines have the same names in all projects.
        for table in spark.catalog.listTables():
            if not table.isTemporary:
                spark.sql(f"DROP TABLE `{table.name}`")


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
