"""The brokers' addresses and the security settings of a pipeline, passed on in environment variables.

`headwater pipeline run` sets the variables from its flags, so that definitions and scripts contain neither addresses
nor passwords.
"""

import json
import os
from pathlib import Path
from typing import Final

from headwater.spark.options.options import CLIENT_PREFIX

BOOTSTRAP: Final = "HEADWATER_BOOTSTRAP"
CLIENT_CONFIG: Final = "HEADWATER_CLIENT_CONFIG"
# What --client-set gave, as a JSON object.
CLIENT_SET: Final = "HEADWATER_CLIENT_SET"
_DEFAULT: Final = "127.0.0.1:9092"
_SERVERS: Final = "bootstrap.servers"


def client_options() -> dict[str, str]:
    """Options of `format("headwater")`, for readers, writers and sinks: `.options(**client_options())`."""
    # Imported lazily: every Python process of Spark imports this package, and few of them call this function.
    from headwater.client.security.properties import read_properties
    from headwater.client.security.security import about_security

    file = os.environ.get(CLIENT_CONFIG)
    given = read_properties(Path(file)) if file else {}
    given |= json.loads(os.environ.get(CLIENT_SET) or "{}")
    servers = os.environ.get(BOOTSTRAP) or given.get(_SERVERS, _DEFAULT)
    return {_SERVERS: servers} | {f"{CLIENT_PREFIX}{name}": value for name, value in about_security(given).items()}
