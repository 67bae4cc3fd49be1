"""Spark's own Kafka connector, on the JVM. Its archives are in `MATRIX_SPARK_JARS`."""

import os
import tempfile

from pyspark.sql import DataFrame, SparkSession

from tests.interop.matrix.programs.steps import RECORDS, TIMEOUT_S, VALUES, Steps, check, run


class Program:
    """Spark creates no topics: the first write does."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        builder = SparkSession.Builder().master("local[1]").appName(name)
        for setting, value in {
            "spark.jars": os.environ["MATRIX_SPARK_JARS"],
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": tempfile.mkdtemp(),
        }.items():
            builder = builder.config(setting, value)
        self._spark = builder.getOrCreate()
        self._options = {"kafka.bootstrap.servers": bootstrap_servers, "startingOffsets": "earliest"}
        self._name = name

    def steps(self) -> Steps:
        return {
            "batch-write": self._batch_write,
            "batch-read": self._batch_read,
            "stream": self._stream,
        }

    def _batch_write(self) -> None:
        rows = self._spark.createDataFrame([("key", value) for value in VALUES], "key string, value string")
        rows.write.format("kafka").options(**self._options, topic=self._name).save()

    def _batch_read(self) -> None:
        source = self._spark.read.format("kafka").options(**self._options, subscribe=self._name)
        _check_values(source.load())
        bounded = source.option("endingOffsets", f'{{"{self._name}": {{"0": 0, "1": 0, "2": 0}}}}').load()
        check(bounded.count() == 0, "a read that ends at the first offset has rows")

    def _stream(self) -> None:
        copy = f"{self._name}-copy"
        with tempfile.TemporaryDirectory() as checkpoint:
            source = self._spark.readStream.format("kafka").options(**self._options, subscribe=self._name).load()
            sink = source.select("key", "value").writeStream.format("kafka").options(**self._options, topic=copy)
            query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            check(bool(query.awaitTermination(TIMEOUT_S)), "the query has not ended")
        _check_values(self._spark.read.format("kafka").options(**self._options, subscribe=copy).load())


def _check_values(rows: DataFrame) -> None:
    values = [row.value.decode() for row in rows.collect()]
    check(sorted(values) == sorted(VALUES), f"{len(values)} rows were read instead of {RECORDS}, or others")


if __name__ == "__main__":
    run(lambda servers, name: Program(servers, name).steps())
