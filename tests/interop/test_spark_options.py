"""The table of options in docs/spark.md says what Spark's Kafka connector and ours do."""

import pytest

from tests.interop import spark_options
from tests.interop.clients.confluent import Confluent
from tests.interop.spark_connectors import Connectors
from tests.interop.spark_options import Trials
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.interop


def test_the_published_table_of_options_is_what_both_connectors_do(
    connectors: Connectors, confluent: Confluent, broker: BrokerProcess, topic: str
) -> None:
    found = Trials(connectors, confluent, broker, topic).table()

    assert found.splitlines() == spark_options.published().splitlines(), (
        "if both are right: python -m tests.interop.spark_options writes the table"
    )
