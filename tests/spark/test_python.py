"""Which Python runs the data source, on the driver and on executors."""

import sys

import pytest

from headwater.errors import ConfigError
from headwater.spark.python import chosen_python


def test_a_setting_goes_before_the_environment_and_that_before_this_python() -> None:
    environment = {"PYSPARK_PYTHON": "/bin/true", "PYSPARK_DRIVER_PYTHON": "jupyter", "PATH": "/bin"}

    assert chosen_python({}, {}) == sys.executable
    assert chosen_python({}, environment) == "/bin/true"
    assert chosen_python({"spark.pyspark.python": "sh"}, environment) == "sh"


def test_a_python_that_the_driver_cannot_start_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"there is no Python '\./environment/bin/python' on this machine"):
        chosen_python({"spark.pyspark.python": "./environment/bin/python"}, {})


def test_a_python_for_the_driver_alone_is_refused() -> None:
    settings = {"spark.pyspark.python": "/bin/sh", "spark.pyspark.driver.python": "/bin/true"}

    with pytest.raises(ConfigError, match=r"Set 'spark\.pyspark\.python' alone"):
        chosen_python(settings, {})
