"""A driver to be killed: copies "source" to "sink" through a shuffle, in a query that is started again when it fails.

It is alone in its process group with all that it starts. Tasks are tried again and, on a cluster, speculated.
"""

import os
import shutil
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from headwater.spark import session
from tests.interop.spark_killable import PLACES_VARIABLE, KillableSource, staged_directory
from tests.support.spark.java import OPTIONS

CONFIG = {
    "spark.task.maxFailures": "4",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": " ".join(OPTIONS),
    "spark.log.level": "ERROR",
    # Executors on a cluster are not started from here.
    **{f"spark.executorEnv.{name}": os.environ[name] for name in (PLACES_VARIABLE, "PYTHONPATH")},
}


def main(bootstrap_servers: str, directory: str, master: str) -> None:
    spark = session("sink-program", master=master, config={**CONFIG, "spark.local.dir": directory + "/spark"})
    spark.dataSource.register(KillableSource)
    servers = {"bootstrap.servers": bootstrap_servers}

    def start() -> StreamingQuery:
        source = spark.readStream.format("headwater").options(**servers)
        rows = source.options(subscribe="source", startingOffsets="earliest", maxOffsetsPerTrigger="400").load()
        copies = rows.selectExpr("key", "concat('copy of ', cast(value as string)) value").repartition(2, "key")
        sink = copies.writeStream.format("killable").options(**servers, topic="sink", stagingTimeoutMs="120000")
        return sink.option("checkpointLocation", directory + "/checkpoint").start()

    while True:
        try:
            start().awaitTermination()
        except StreamingQueryException as error:
            sys.stderr.write(f"the query failed: {error}\n")


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(exist_ok=True)
    # Numbers of stages begin anew.
    shutil.rmtree(staged_directory(), ignore_errors=True)
    main(*sys.argv[1:])
