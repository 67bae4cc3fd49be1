"""A script that runs on a secured broker, whose security comes from a properties file and an option."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from headwater.testing import Broker
from tests.support.cli.commands import Commands

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from headwater.spark import client_options

spark = SparkSession.builder.getOrCreate()
letters = spark.readStream.format("headwater").options(**client_options()).option("subscribe", "letters")
copy = letters.option("startingOffsets", "earliest").load().select("value").writeStream.queryName("copy")
copy = copy.format("headwater").options(**client_options()).option("topic", "copy")
copy.option("checkpointLocation", sys.argv[1]).trigger(availableNow=True).start().awaitTermination()
"""


class SecuredJob(NamedTuple):
    arguments: Sequence[str]
    commands: Commands
    config: Sequence[str]

    def copied(self) -> list[str]:
        return self.commands.succeed("consume", "copy", "--from", "beginning", *self.config).lines


@contextmanager
def secured_job(directory: Path) -> Generator[SecuredJob]:
    script = directory / "job.py"
    script.write_text(SCRIPT)
    with Broker(security="SASL_SSL") as broker:
        given = broker.client_settings()
        # The script gets what the options say, too.
        protocol = given.pop("security.protocol")
        settings = directory / "client.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        config = ("--client-config", str(settings), "--client-set", f"security.protocol={protocol}")
        commands = Commands(broker.bootstrap_servers)
        for topic in ("letters", "copy"):
            commands.succeed("topic", "create", topic, "--partitions", "1", *config)
        commands.succeed("produce", "letters", "--quiet", *config, typed=b"a\nb\n")
        where = ("--bootstrap", commands.bootstrap, "--master", "local[1]", *config)
        job = ["pipeline", "run", str(script), *where, "--", str(directory / "checkpoint")]
        yield SecuredJob(job, commands, config)
