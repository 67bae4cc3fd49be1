"""`session()`: a Spark session that starts quickly and suits one machine, or one on a cluster or a Connect server.

It is optional: `format("headwater")` works in every Spark session, however it was created.
"""

import atexit
import logging
import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from headwater.errors import ConfigError, HeadwaterError
from headwater.spark import python
from headwater.spark.java import find_java
from headwater.spark.java_logging import logging_option
from headwater.spark.save_mode import append_by_default

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_GIBIBYTE = 1 << 30
# On so few cores a serial garbage collector is faster: parallel collector threads would compete with Spark's tasks.
_SERIAL_CORES_MAX = 2

# Settings that also work in a session on a server that is already running.
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# With it the conditions of a query reach the source, which then reads only a part of a topic.
_PUSHDOWN = {"spark.sql.python.filterPushdown.enabled": "true"}


class SparkNotInstalled(HeadwaterError):
    """pyspark is missing: it is an optional dependency, the extra `spark`."""


def session(
    name: str = "headwater",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> "SparkSession":
    """A session on this machine; with `master` on a cluster, with `remote` (`sc://HOST:PORT`, or `SPARK_REMOTE` in the
    environment) through Spark Connect.

    On a cluster Headwater is shipped to the executors, unless a Python is chosen for them (`spark.pyspark.python`,
    `PYSPARK_PYTHON`): that one must have it. `config` contains Spark's own settings and takes precedence over the
    defaults. Tables and their catalogue are kept in `directory`; without one they last as long as this process. As
    always in Spark, an existing session is returned instead of a new one.
    """
    if master is not None and remote is not None:
        raise ConfigError(f"master {master!r} and remote {remote!r} exclude each other: give one of them")
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise SparkNotInstalled(f"{error.name} is not installed; run: pip install 'headwater[spark]'") from None

    _leave_errors_to_the_caller()
    given = dict(config or {})
    if master is None and "spark.master" not in given:
        # Spark's own convention; `headwater pipeline run --remote` sets the variable for its scripts.
        remote = remote or os.environ.get("SPARK_REMOTE") or None
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter

        append_by_default(ConnectWriter)
        builder = builder.remote(remote).config(map={**_SESSION, **given})
        if not remote.startswith("local"):
            return builder.getOrCreate()
        # For `local[N]` Spark starts a Connect server on this machine.
        with _environment(_driver_environment(python.chosen_python(given), is_local=True)):
            return builder.getOrCreate()

    from pyspark.sql.readwriter import DataFrameWriter

    append_by_default(DataFrameWriter)
    # By default all cores of this machine.
    master = master or given.pop("spark.master", None) or "local[*]"
    settings = {**_SESSION, **_QUIET, **_PUSHDOWN, **_tables(directory)}
    is_local = master.startswith("local")
    if is_local:
        settings |= _one_machine(os.cpu_count() or 1)
    java_options = [settings.get(_JAVA_OPTIONS), logging_option(), _derby(directory), given.pop(_JAVA_OPTIONS, None)]
    settings |= given
    settings[_JAVA_OPTIONS] = " ".join(option for option in java_options if option)
    if is_local or python.is_chosen(given):
        wanted = _driver_environment(python.chosen_python(given), is_local=is_local)
    else:
        # Imported lazily: every Python process of Spark imports this module.
        from headwater.spark import package

        executable, folder = python.portable_python()
        wanted = _driver_environment(executable, is_local=False)
        # Here the name means this Python; on executors it means theirs, which finds Headwater in the package.
        wanted["PATH"] = f"{folder}:{os.environ.get('PATH', os.defpath)}"
        if not package.is_shipped(given):
            settings |= package.settings(package.shipped_package(), given)
    with _environment(wanted):
        return builder.master(master).config(map={**settings}).getOrCreate()


def _leave_errors_to_the_caller() -> None:
    """Before pyspark raises an error it logs the same error with its whole Java stack, so that people see pages of Java
    in front of the sentence. A level that the program has set itself stays."""
    from pyspark.logger import PySparkLogger

    for name in _ERROR_LOGGERS:
        # Not logging.getLogger(): pyspark passes arguments that only a logger of its own class accepts.
        logger = PySparkLogger.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)


def _one_machine(cores: int) -> dict[str, str]:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    heap_gib = min(8, max(1, memory_bytes // 4 // _GIBIBYTE))
    settings = {
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": f"{heap_gib}g",
        # Everything runs in one process, so its ports need not be reachable from outside.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    # Java's second compiler (C2) stays on: without it Spark starts sooner, but every long-running query is slower.
    if cores <= _SERIAL_CORES_MAX:
        settings[_JAVA_OPTIONS] = "-XX:+UseSerialGC"
    return settings


def _tables(directory: str | os.PathLike[str] | None) -> dict[str, str]:
    if directory is None:
        temporary = mkdtemp(prefix="headwater-spark-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return {"spark.sql.warehouse.dir": str(Path(temporary) / "warehouse")}
    # By default Spark would use the current directory, and its in-memory catalogue would forget tables whose files
    # still exist. Hive's catalogue persists them.
    root = Path(directory).absolute()
    root.mkdir(parents=True, exist_ok=True)
    return {
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={root / 'metastore'};create=true",
    }


def _derby(directory: str | os.PathLike[str] | None) -> str | None:
    """The Java option for the directory in which Derby, the catalogue's database, writes its log."""
    if directory is None:
        return None
    home = str(Path(directory).absolute())
    return f'"-Dderby.system.home={home}"' if " " in home else f"-Dderby.system.home={home}"


def _driver_environment(executable: str, *, is_local: bool) -> dict[str, str]:
    """The variables that Spark's start scripts read: the Java, the Python in which Headwater is installed, and on a
    single machine also its address."""
    wanted = {
        "JAVA_HOME": str(find_java().home),
        # Spark does not read `spark.pyspark.python` in a session that Python starts.
        python.VARIABLE: executable,
        python.DRIVER_VARIABLE: executable,
    }
    if is_local:
        wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    return wanted


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
