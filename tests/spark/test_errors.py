"""Errors begin with the sentence that says what to change, and options are checked where a read is defined."""

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from headwater.client.cluster import Cluster
from headwater.testing import Broker
from tests.support.spark.reads import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED = {
    "nothing to read": ({}, "exactly one of the options"),
    "a number": ({"subscribe": "a", "minPartitions": "many"}, "'minPartitions' is a whole number, not 'many'"),
    "a stream's number": ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger' is at least 1"),
    "an end": ({"subscribe": "a", "endingOffsets": "earliest"}, "cannot end at 'earliest'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_options_are_refused_where_a_read_is_defined(
    spark: "SparkSession", headwater_broker: Broker, case: str
) -> None:
    options, sentence = REFUSED[case]
    given = {"bootstrap.servers": headwater_broker.bootstrap_servers, **options}

    for reader in (spark.read, spark.readStream):
        with pytest.raises(AnalysisException) as caught:
            reader.format("headwater").options(**given).load()
        assert sentence in str(caught.value)
        assert "Traceback" not in str(caught.value)


def test_options_of_one_kind_of_read_alone_are_accepted(spark: "SparkSession", headwater_broker: Broker) -> None:
    given = {"bootstrap.servers": headwater_broker.bootstrap_servers, "subscribe": "a"}

    spark.read.format("headwater").options(**given, endingOffsets="latest").load()
    spark.readStream.format("headwater").options(**given, maxOffsetsPerTrigger="1", startingOffsets="latest").load()


def test_a_stream_whose_options_are_found_wrong_when_it_starts_says_so(
    spark: "SparkSession", headwater_broker: Broker
) -> None:
    # Spark does not ask the source while a read with a schema is defined.
    given = {"bootstrap.servers": headwater_broker.bootstrap_servers, "subscribe": "a", "startingOfsets": "latest"}
    reader = spark.readStream.format("headwater").options(**given).schema("value BINARY")
    for is_once in (True, False):
        writer = reader.load().writeStream.format("noop")
        query = (writer.trigger(availableNow=True) if is_once else writer.trigger(processingTime="0 seconds")).start()
        with pytest.raises(StreamingQueryException, match="did you mean 'startingOffsets'") as caught:
            query.awaitTermination(60)
        assert "Traceback" not in str(caught.value)


def test_an_error_of_a_task_begins_with_its_sentence(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, [b"no json"])
    reader = spark.read.format("headwater").option("bootstrap.servers", headwater_broker.bootstrap_servers)
    rows = reader.options(**{"subscribe": topic, "value.format": "json", "value.schema": "id BIGINT"}).load()

    with pytest.raises(Exception, match="the value at offset 0 of") as caught:
        rows.collect()
    assert "Traceback" not in str(caught.value)


def test_spark_does_not_log_the_errors_that_it_raises(spark: "SparkSession", capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnalysisException, match="nosuch"):
        spark.sql("SELECT * FROM nosuch")
    with pytest.raises(AnalysisException, match="nosuch"):
        spark.range(1).select("nosuch")

    shown = capfd.readouterr()
    assert "nosuch" not in shown.out + shown.err
