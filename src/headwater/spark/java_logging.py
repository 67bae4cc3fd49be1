"""Configures the log of Spark's Java: warnings and errors, except a dozen that new users would mistake for problems."""

import os
from pathlib import Path

_CONFIG = Path(__file__).with_name("log4j2.properties")


def logging_option() -> str | None:
    """The option for Java's command line. None if this installation of Spark has a logging configuration of its own."""
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    if directory and any(Path(directory).glob("log4j2.*")):
        return None
    return f"-Dlog4j2.configurationFile={_CONFIG.as_uri()}"
