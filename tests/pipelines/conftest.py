"""A broker and the commands for it, on the Spark session that tests share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.testing import Broker
from tests.support.cli.commands import Commands
from tests.support.spark.sessions import SharedSparkCommands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker of this directory's own, not the shared one: new projects use fixed topic names."""
    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def commands(broker: Broker) -> Commands:
    return Commands(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def spark_commands(spark: "SparkSession", broker: Broker) -> SharedSparkCommands:
    return SharedSparkCommands(broker.bootstrap_servers, spark)
