"""The brokers that the options name, and the client for them, which a Python worker reuses from task to task."""

import os
from dataclasses import dataclass, field

from headwater.client.cluster import Cluster
from headwater.client.security.security import read_security
from headwater.errors import ConfigError
from headwater.spark.options.options import CLIENT_PREFIX, Options

BOOTSTRAP = "bootstrap.servers"
_CLIENT_ID = "headwater-spark"

# One client for each process and address. A Python worker executes many tasks one after the other, and a new connection
# for each would cost more than a small task.
_clusters: dict[tuple[int, "BrokerAddress"], Cluster] = {}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The addresses of the brokers, and the client settings for connecting to them."""

    bootstrap_servers: str
    # Settings under the names that Kafka's clients use. Not in the repr, because they may contain passwords.
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def cluster(self) -> Cluster:
        # The process id is part of the key: a forked worker must not share its parent's sockets.
        key = os.getpid(), self
        cluster = _clusters.get(key)
        if cluster is None:
            settings = dict(self.settings)
            cluster = _clusters[key] = Cluster(
                self.bootstrap_servers,
                security=read_security(settings),
                client_id=settings.get("client.id", _CLIENT_ID),
            )
        return cluster


def broker_address(options: Options) -> BrokerAddress:
    settings = options.client_settings()
    given = options.text(BOOTSTRAP)
    alias = settings.pop(BOOTSTRAP, None)
    if given is not None and alias is not None and given != alias:
        raise ConfigError(f"options {BOOTSTRAP!r} and {CLIENT_PREFIX + BOOTSTRAP!r} contradict each other")
    servers = given or alias
    if options.is_empty:
        raise ConfigError(
            f"option {BOOTSTRAP!r} is missing. Spark hands on the options of a table only if CREATE TABLE names no "
            "columns, and only for reads: insert into a temporary view, or say INSERT INTO t WITH (`bootstrap.servers` "
            "= 'host:port', topic = 'name')"
        )
    if not servers:
        raise ConfigError(f"option {BOOTSTRAP!r} is missing: where are the brokers? Such as 'localhost:9092'")
    # Reports wrong settings when the query is defined, not later in its tasks.
    read_security(settings)
    return BrokerAddress(servers, tuple(sorted(settings.items())))
