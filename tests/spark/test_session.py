"""`session()`: the settings that it makes or leaves alone, and that users without it pay nothing."""

import subprocess
import sys
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


def test_a_second_call_in_a_process_returns_the_same_session(spark: "SparkSession") -> None:
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


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_package_loads_neither_pyspark_nor_pyarrow() -> None:
    finished = run("import sys; from headwater.spark import session; print(*sys.modules)")

    assert finished.returncode == 0, finished.stderr
    assert not {"pyspark", "pyarrow", "pandas", "py4j"} & set(finished.stdout.split())


def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    finished = run("import sys; sys.modules['pyspark'] = None\nfrom headwater.spark import session; session()")

    assert finished.stderr.strip().endswith("run: pip install 'headwater[spark]'")
