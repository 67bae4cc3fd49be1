"""Apache Kafka's own server with every kind of listener, for what our client and connector have to get on with."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import apache_kafka
from benchmarks.ports import port_of, reserved_port

from tests.support.client.certificates import Authority, Identity

PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

USER = "ann"
PASSWORD = "tea & milk; #2"


@dataclass(frozen=True, slots=True)
class KafkaServer:
    ports: Mapping[str, int]
    authority: Authority
    client: Identity

    def bootstrap_servers(self, protocol: str = "PLAINTEXT") -> str:
        return f"127.0.0.1:{self.ports[protocol]}"

    def settings(self, protocol: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """With which a client gets in."""
        settings = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl.ca.location"] = str(self.authority.certificate)
        if protocol == "SSL":
            settings["ssl.certificate.location"] = str(self.client.certificate)
            settings["ssl.key.location"] = str(self.client.key)
        if protocol.startswith("SASL"):
            settings |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        return settings


@contextmanager
def running(java: Sequence[str], directory: Path) -> Generator[KafkaServer]:
    """SSL wants the client's certificate, SASL_SSL only its password."""
    authority = Authority(directory / "certificates")
    with ExitStack() as running_on:
        ports = {protocol: port_of(running_on.enter_context(reserved_port())) for protocol in PROTOCOLS}
        server = KafkaServer(ports, authority, authority.issue("client"))
        started = apache_kafka.start(
            java,
            directory,
            ports=ports,
            controller_port=port_of(running_on.enter_context(reserved_port())),
            settings=_settings(authority, authority.issue("server")),
            format_options=_users(),
        )
        running_on.enter_context(started)
        yield server


def _settings(authority: Authority, server: Identity) -> dict[str, str]:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": server.certificate.read_text(),
        "ssl.keystore.key": server.key.read_text(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate.read_text(),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "num.partitions": "1",
        # Fewer threads and files, and less memory, than on a machine of its own.
        "num.network.threads": "1",
        "num.io.threads": "2",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "log.cleaner.dedupe.buffer.size": "2097152",
        # Members of a group learn of each other with their next heartbeat.
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f'{plain} required user_{USER}="{PASSWORD}";'
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{scram} required;"
    return settings


def _users() -> list[str]:
    options: list[str] = []
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        options += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
    return options
