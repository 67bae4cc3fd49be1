"""From options to a connected client, kept for the next task of the same Python worker."""

import os
from dataclasses import dataclass, field

from headwater.client.cluster import Cluster
from headwater.client.security.security import read_security
from headwater.errors import ConfigError
from headwater.spark.options.options import CLIENT_PREFIX, Options

BOOTSTRAP = "bootstrap.servers"
_CLIENT_ID = "headwater-spark"

# Spark hands one task after the other to a worker: connecting anew for each would cost more than a small task.
_connected: dict[tuple[int, "BrokerAddress"], Cluster] = {}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where the brokers are, and how to talk to them."""

    bootstrap_servers: str
    # Of a Kafka client, by their own names; passwords may be among them.
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def cluster(self) -> Cluster:
        # A forked worker must not share its parent's sockets.
        key = os.getpid(), self
        cluster = _connected.get(key)
        if cluster is None:
            settings = dict(self.settings)
            cluster = _connected[key] = Cluster(
                self.bootstrap_servers,
                security=read_security(settings),
                client_id=settings.get("client.id", _CLIENT_ID),
            )
        return cluster


def connecting(options: Options) -> BrokerAddress:
    settings = options.client_settings()
    given = options.text(BOOTSTRAP)
    alias = settings.pop(BOOTSTRAP, None)
    if given is not None and alias is not None and given != alias:
        raise ConfigError(f"options {BOOTSTRAP!r} and {CLIENT_PREFIX + BOOTSTRAP!r} contradict each other")
    servers = given or alias
    if not servers:
        raise ConfigError(f"option {BOOTSTRAP!r} is missing: where are the brokers? Such as 'localhost:9092'")
    # What is wrong with them is said here, where the query is made, and not first by its tasks.
    read_security(settings)
    return BrokerAddress(servers, tuple(sorted(settings.items())))
