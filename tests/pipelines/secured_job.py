"""A script that runs on a secured broker, whose address and security come from a properties file."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.cli.commands import Commands
from tests.support.client.certificates import Authority
from tests.support.client.tls_relay import TlsRelay, secured

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
    authority = Authority(directory)
    settings = directory / "client.properties"
    settings.write_text(f"security.protocol=SSL\nssl.ca.location={authority.certificate}\n")
    script = directory / "job.py"
    script.write_text(SCRIPT)
    config = ("--client-config", str(settings))
    with secured(TlsRelay(authority.issue("server"))) as relay:
        commands = Commands(str(relay.endpoint))
        for topic in ("letters", "copy"):
            commands.succeed("topic", "create", topic, "--partitions", "1", *config)
        commands.succeed("produce", "letters", "--quiet", *config, typed=b"a\nb\n")
        where = ("--bootstrap", commands.bootstrap, "--master", "local[1]", *config)
        job = ["pipeline", "run", str(script), *where, "--", str(directory / "checkpoint")]
        yield SecuredJob(job, commands, config)
