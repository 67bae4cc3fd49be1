"""A driver: counts the topic "source", or copies it to another one, on a cluster whose machines lack Headwater."""

import sys

from headwater.spark import session
from tests.support.spark.java import OPTIONS

CONFIG = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": " ".join(OPTIONS),
    "spark.task.maxFailures": "4",
    # Both workers take part from the beginning.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.log.level": "ERROR",
}


def main(master: str, bootstrap_servers: str, source: str, target: str, directory: str, *settings: str) -> None:
    chosen = dict(setting.split("=", 1) for setting in settings)
    spark = session("copy", master=master, config={**CONFIG, "spark.local.dir": f"{directory}/spark", **chosen})
    options = {"bootstrap.servers": bootstrap_servers, "subscribe": source}
    if not target:
        sys.stdout.write(f"{spark.read.format('headwater').options(**options).load().count()} rows\n")
        return
    rows = spark.readStream.format("headwater").options(**options, startingOffsets="earliest")
    copies = rows.option("maxOffsetsPerTrigger", "200").load().select("key", "value").writeStream.format("headwater")
    sink = copies.options(**{"bootstrap.servers": bootstrap_servers, "topic": target, "stagingTimeoutMs": "120000"})
    query = sink.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
