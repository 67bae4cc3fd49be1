"""Where the brokers are and how to talk to them, as the environment of a pipeline says it.

`headwater pipeline run` puts there what it was told: definitions and scripts name no broker, and hold no password.
"""

import os
from pathlib import Path
from typing import Final

from headwater.spark.options.options import CLIENT_PREFIX

BOOTSTRAP: Final = "HEADWATER_BOOTSTRAP"
CLIENT_CONFIG: Final = "HEADWATER_CLIENT_CONFIG"
_DEFAULT: Final = "127.0.0.1:9092"
_SERVERS: Final = "bootstrap.servers"


def client_options() -> dict[str, str]:
    """Options of `format("headwater")`, for readers, writers and sinks: `.options(**client_options())`."""
    # Imported here because all of Spark's Python processes import this package, and few ask.
    from headwater.client.security.properties import read_properties
    from headwater.client.security.security import about_security

    file = os.environ.get(CLIENT_CONFIG)
    given = read_properties(Path(file)) if file else {}
    servers = os.environ.get(BOOTSTRAP) or given.get(_SERVERS, _DEFAULT)
    return {_SERVERS: servers} | {f"{CLIENT_PREFIX}{name}": value for name, value in about_security(given).items()}
