"""What Spark's Java logs: warnings and errors, without the dozen that tell a newcomer of things as they should be."""

import os
from pathlib import Path

_CONFIG = Path(__file__).with_name("log4j2.properties")


def logging_option() -> str | None:
    """For the command line of Java; None where whoever set Spark up has configured its logging."""
    home = os.environ.get("SPARK_HOME")
    place = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    if place and any(Path(place).glob("log4j2.*")):
        return None
    return f"-Dlog4j2.configurationFile={_CONFIG.as_uri()}"
