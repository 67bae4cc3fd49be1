"""TLS to our broker behind a relay that terminates TLS, and to relays that must not be trusted."""

import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.connection import BrokerConnection
from headwater.client.consumer import Consumer
from headwater.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from headwater.client.producer import Producer
from headwater.client.security.security import Security, read_security
from headwater.endpoint import Endpoint
from headwater.errors import ConfigError
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse
from headwater.protocol.wire.codec import encode, write_response_header
from headwater.testing import Broker
from tests.support.client.certificates import Authority, Identity
from tests.support.client.scripted import Peer, read_frame
from tests.support.client.tls_relay import TlsRelay, secured
from tests.support.readiness import is_readable

PASSWORD = "secret"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Identity:
    return authority.issue("server")


@pytest.fixture(scope="module")
def client(authority: Authority) -> Identity:
    return authority.issue("client", password=PASSWORD)


@pytest.fixture(scope="module")
def relay(server: Identity) -> Iterator[TlsRelay]:
    with secured(TlsRelay(server)) as running:
        yield running


def trusting(authority: Authority, **settings: str) -> Security:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return read_security({"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate), **named})


def ask(relay: Peer, security: Security) -> None:
    with Cluster(str(relay.endpoint), security=security) as cluster:
        assert cluster.metadata().brokers


def test_records_are_written_and_read_over_tls(relay: TlsRelay, authority: Authority) -> None:
    values = [b"%d" % number * 1000 for number in range(200)]
    with Cluster(str(relay.endpoint), security=trusting(authority)) as cluster:
        Admin(cluster).create_topic("orders", partition_count=1)
        producer = Producer(cluster)
        for value in values:
            producer.send("orders", value)
        producer.flush()
        consumer = Consumer(cluster, {TopicPartition(TopicName("orders"), 0): 0})
        read: list[bytes | None] = []
        while len(read) < len(values):
            read += [record.value for record in consumer.poll()]

    assert read == values


def test_trusted_certificates_may_be_given_as_text(relay: TlsRelay, authority: Authority) -> None:
    text = authority.certificate.read_text()
    settings = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
    ask(relay, read_security(settings))


def test_trusted_certificates_may_be_a_directory(relay: TlsRelay, authority: Authority, tmp_path: Path) -> None:
    security = read_security({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path)})
    with pytest.raises(AuthenticationFailed, match="not to be trusted"):
        ask(relay, security)
    (tmp_path / "ca.pem").write_text(authority.certificate.read_text())
    subprocess.run(["openssl", "rehash", str(tmp_path)], check=True)
    ask(relay, security)


def test_a_server_certificate_of_an_unknown_authority_is_refused(relay: TlsRelay) -> None:
    # The operating system's authorities have not signed it.
    with pytest.raises(AuthenticationFailed, match=r"certificate of .* is not to be trusted: .*issuer") as raised:
        ask(relay, read_security({"security.protocol": "SSL"}))
    assert not raised.value.is_retriable


def test_a_certificate_for_another_host_is_refused_unless_the_check_is_off(authority: Authority) -> None:
    with secured(TlsRelay(authority.issue("elsewhere", hosts="DNS:elsewhere.example"))) as elsewhere:
        with pytest.raises(AuthenticationFailed, match=r"127\.0\.0\.1"):
            ask(elsewhere, trusting(authority))
        ask(elsewhere, trusting(authority, ssl_endpoint_identification_algorithm=""))


def test_a_client_certificate_is_sent_if_the_broker_wants_one(
    server: Identity, client: Identity, authority: Authority
) -> None:
    both = {"ssl.keystore.type": "PEM", "ssl.key.password": PASSWORD}
    trust = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
    texts = {
        "ssl.keystore.certificate.chain": client.certificate.read_text(),
        "ssl.keystore.key": client.key.read_text(),
    }
    together = client.certificate.with_name("together.pem")
    together.write_text(client.both)
    files = {"ssl.certificate.location": str(client.certificate), "ssl.key.location": str(client.key)}
    with secured(TlsRelay(server, clients=authority.certificate)) as wanting:
        ask(wanting, read_security({**trust, **files, "ssl.key.password": PASSWORD}))
        ask(wanting, read_security({**trust, **both, **texts}))
        ask(wanting, read_security({**trust, **both, "ssl.keystore.location": str(together)}))
        with pytest.raises(ClientError, match=r"refused TLS.*certificate|lost the connection"):
            ask(wanting, trusting(authority))


def test_a_refusal_that_waits_unread_is_found(server: Identity, authority: Authority) -> None:
    """In TLS 1.3 the handshake is over for the client before the broker looks at the client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    tls = trusting(authority).tls
    assert tls is not None
    ours, theirs = socket.socketpair()

    def refuse() -> None:
        with theirs, pytest.raises(ssl.SSLError):
            context.wrap_socket(theirs, server_side=True)

    broker = threading.Thread(target=refuse)
    broker.start()
    endpoint = Endpoint("localhost", 1)
    with tls.wrap(ours, endpoint) as connected:
        broker.join()
        refusal = tls.unread_refusal(connected, endpoint)

    assert isinstance(refusal, AuthenticationFailed)
    assert "refused TLS with us: " in str(refusal)
    assert "(ssl.certificate.location)" in str(refusal)


@pytest.mark.parametrize("password", ["wrong", None])
def test_the_error_for_an_unreadable_key_names_the_key_but_not_its_password(
    relay: TlsRelay, client: Identity, authority: Authority, password: str | None
) -> None:
    given = {} if password is None else {"ssl_key_password": password}
    security = trusting(
        authority, ssl_certificate_location=str(client.certificate), ssl_key_location=str(client.key), **given
    )
    with pytest.raises(ConfigError, match=r"ssl\.key\.location: .*client\.key") as raised:
        ask(relay, security)
    assert "wrong" not in str(raised.value)


def test_missing_and_invalid_certificate_files_are_named(relay: TlsRelay, authority: Authority, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("tea")
    for name, file, complaint in (
        ("ssl_ca_location", tmp_path / "none.pem", "No such file"),
        ("ssl_ca_location", text, "does not hold PEM"),
        ("ssl_certificate_location", text, "does not hold PEM"),
    ):
        with pytest.raises(ConfigError, match=rf"{name.replace('_', '.')}: .*{file.name}.*{complaint}"):
            ask(relay, trusting(authority, **{name: str(file)}))


@pytest.mark.parametrize("text", ["", "tea", "thé", "\0"])
def test_the_error_for_an_invalid_certificate_text_names_the_setting(relay: TlsRelay, text: str) -> None:
    settings = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.certificates: its text"):
        ask(relay, read_security(settings))


def test_a_version_of_tls_that_the_broker_does_not_speak_is_refused(server: Identity, authority: Authority) -> None:
    old = TlsRelay(server)
    old.context.maximum_version = ssl.TLSVersion.TLSv1_2
    with secured(old), pytest.raises(AuthenticationFailed, match=r"refused TLS with us: .*protocol version"):
        ask(old, trusting(authority, ssl_enabled_protocols="TLSv1.3"))


def test_plaintext_to_a_tls_port_and_tls_to_a_plaintext_port_are_told_apart(
    relay: TlsRelay, authority: Authority, broker: Broker
) -> None:
    with pytest.raises(ClientError, match=r"it speaks TLS there \(security.protocol\)|closed|reset"):
        ask(relay, Security())
    with (
        Cluster(broker.bootstrap_servers, security=trusting(authority)) as cluster,
        pytest.raises(ClientError, match=r"\(security.protocol\)"),
    ):
        cluster.metadata()


def test_a_silent_broker_times_out_the_tls_handshake(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ConnectionLost, match="TLS in time"):
        BrokerConnection(Endpoint(*silent.getsockname()), security=trusting(authority), timeout_ms=50)


class HastyBroker(Peer):
    """Answers two requests in one TLS record."""

    def __init__(self, identity: Identity) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(identity.certificate, identity.key)
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        with self._context.wrap_socket(connection, server_side=True) as secured:
            read_frame(secured)
            offer = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=9)])
            secured.sendall(self._frame(offer, 4, 1))
            answer = MetadataResponse(brokers=[], topics=[], cluster_id="hasty", controller_id=1)
            read_frame(secured)
            read_frame(secured)
            secured.sendall(self._frame(answer, 9, 2) + self._frame(answer, 9, 3))
            secured.recv(1)

    def _frame(self, answer: ApiVersionsResponse | MetadataResponse, version: int, correlation_id: int) -> bytes:
        out = bytearray()
        write_response_header(out, type(answer), version, correlation_id)
        out += encode(answer, version)
        return struct.pack(">i", len(out)) + out


def test_a_response_that_tls_has_already_buffered_counts_as_arrived(server: Identity, authority: Authority) -> None:
    with HastyBroker(server) as hasty, BrokerConnection(hasty.endpoint, security=trusting(authority)) as connection:
        first = connection.send(MetadataRequest(topics=None), MetadataResponse)
        second = connection.send(MetadataRequest(topics=None), MetadataResponse)
        assert not connection.has_arrived(first)
        connection.wait(first)

        assert connection.has_arrived(first)
        assert connection.has_arrived(second)
        assert not is_readable(connection)
        assert connection.wait(second).cluster_id == "hasty"
