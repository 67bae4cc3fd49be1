"""The Python in which Spark runs the data source: on the driver, and on every executor."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.errors import ConfigError

SETTING: Final = "spark.pyspark.python"
_DRIVER_SETTING: Final = "spark.pyspark.driver.python"
VARIABLE: Final = "PYSPARK_PYTHON"
# Takes precedence in Spark, also on executors. It is often the name of a notebook server, which is no Python.
DRIVER_VARIABLE: Final = "PYSPARK_DRIVER_PYTHON"


def is_chosen(config: Mapping[str, str]) -> bool:
    return bool(config.get(SETTING) or os.environ.get(VARIABLE))


def portable_python() -> tuple[str, Path]:
    """A name for a Python of this version on every machine, and the directory in which it means this Python."""
    directory = Path(sys.executable).parent
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not os.access(directory / name, os.X_OK):
        raise ConfigError(
            f"there is no {name} in {directory}, so executors cannot be told which Python to start: set {SETTING!r} "
            "to a path that is the same on all machines"
        )
    return name, directory


def chosen_python(config: Mapping[str, str], environment: Mapping[str, str] | None = None) -> str:
    """The setting `spark.pyspark.python`, else `PYSPARK_PYTHON`, else the Python of this process.

    Spark starts a source written in Python by one path for the driver and the executors alike. So a path that this
    machine does not have could not even be found by the driver, which would say that there is no such source.
    """
    environment = os.environ if environment is None else environment
    python = config.get(SETTING) or environment.get(VARIABLE) or sys.executable
    driver_python = config.get(_DRIVER_SETTING, python)
    if driver_python != python:
        raise ConfigError(
            f"{_DRIVER_SETTING!r} is {driver_python!r} and the executors' Python is {python!r}: Spark starts a source "
            f"written in Python by the same path everywhere. Set {SETTING!r} alone"
        )
    if shutil.which(python, path=environment.get("PATH")) is None:
        raise ConfigError(
            f"there is no Python {python!r} on this machine: Spark starts a source written in Python by the same path "
            f"on the driver and on every executor. Set {SETTING!r} (or {VARIABLE}) to a path that all of them have"
        )
    return python
