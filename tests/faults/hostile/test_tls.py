"""Hostile TLS: handshakes that never end, are slow, or begin again; certificates that no client would have."""

import ssl
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError
from headwater.client.security.security import read_security
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.faults.hostile.flooding import DESCRIPTORS_BESIDE, raise_descriptors
from tests.faults.hostile.watching import MIB, Bystander, WatchedBroker, watched
from tests.support.broker.processes import wait_until
from tests.support.kafka.raw_client import RawClient, frame
from tests.support.readiness import is_readable
from tests.support.security.authority import HERE, SERVER, TestAuthority
from tests.support.security.logins import SASL_PLAINTEXT, SSL, Login
from tests.support.security.raw_sasl import RawSasl

UNKNOWN = x509.ObjectIdentifier("1.2.3.4")
HALF_HANDSHAKES = 1000
HANDSHAKES_MAX = 100
SHORT_MS = "500"
LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"


class Site(NamedTuple):
    broker: WatchedBroker
    # Of a client with a good certificate.
    login: Login
    authority: TestAuthority


@contextmanager
def secured(directory: Path, hosts: Sequence[str] = HERE, **settings: str) -> Generator[Site]:
    """A broker with a TLS listener for clients with a certificate."""
    authority = TestAuthority(directory)
    given = {
        "listeners": LISTENERS,
        "ssl.keystore.location": str(authority.issue_server(hosts=hosts)),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    with watched(directory, given) as broker:
        certificate = authority.issue("ann")
        login = Login(broker.address(SSL), SSL, authority.certificate, certificate=certificate)
        yield Site(broker, login, authority)


def client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


class Address:
    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers


def is_closed(client: RawClient) -> bool:
    """Whether the broker has closed the connection, whatever it sent before."""
    while is_readable(client.socket):
        try:
            if not client.socket.recv(65_536):
                return True
        except ConnectionError:
            return True
    return False


def is_served(login: Login) -> bool:
    with RawSasl(login) as client:
        return client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


# -- handshakes


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(1, marks=pytest.mark.slow, id="one byte"),
        pytest.param(100, marks=pytest.mark.slow, id="half a hello"),
        pytest.param(None, id="a hello"),
    ],
)
def test_half_handshakes_by_the_thousand_take_bounded_memory_and_keep_nobody_out(
    tmp_path: Path, begun: int | None
) -> None:
    raise_descriptors(HALF_HANDSHAKES + DESCRIPTORS_BESIDE)
    hello = client_hello()[:begun]
    with (
        secured(tmp_path, headwater_tls_handshakes_max=str(HANDSHAKES_MAX)) as (broker, login, _),
        Bystander(broker) as bystander,
        ExitStack() as stack,
    ):
        assert is_served(login)
        before = broker.memory_bytes()
        broker.forget_memory_peak()
        clients = [stack.enter_context(RawClient(Address(broker.address(SSL)))) for _ in range(HALF_HANDSHAKES)]
        for number, client in enumerate(clients):
            try:
                client.send_bytes(hello)
            except ConnectionError:
                # Newer clients have taken its place already.
                continue
            if number % (HALF_HANDSHAKES // 4) == 0:
                assert is_served(login)
                bystander.check(1)
        assert is_served(login)
        wait_until(
            lambda: broker.connection_count() <= HANDSHAKES_MAX + 1, "more clients are in their handshake than may be"
        )
        # Each takes 44 KB in its handshake, and one connection more is open than may be in it.
        assert broker.memory_peak_bytes() - before < HANDSHAKES_MAX * 64 * 1024 + 8 * MIB
        wait_until(lambda: sum(map(is_closed, clients)) >= HALF_HANDSHAKES - HANDSHAKES_MAX, "they stay connected")
    assert "more failed TLS handshakes in the last second are not logged one by one" in broker.log


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(0, marks=pytest.mark.slow, id="nothing"),
        pytest.param(1, marks=pytest.mark.slow, id="one byte"),
        pytest.param(50, id="half a hello"),
        pytest.param(None, marks=pytest.mark.slow, id="a hello"),
    ],
)
def test_slow_handshakes_are_given_up(tmp_path: Path, begun: int | None) -> None:
    hello = client_hello()
    with (
        secured(tmp_path, headwater_tls_handshake_timeout_ms=SHORT_MS) as (broker, login, _),
        Bystander(broker) as bystander,
        ExitStack() as stack,
    ):
        clients = [stack.enter_context(RawClient(Address(broker.address(SSL)))) for _ in range(50)]
        sent = len(hello) if begun is None else begun
        for client in clients:
            client.send_bytes(hello[:sent])

        def drip() -> bool:
            nonlocal sent
            for client in clients if begun else ():
                try:
                    client.socket.send(hello[sent : sent + 1])
                except ConnectionError:
                    continue
            sent += 1
            return all(map(is_closed, clients))

        wait_until(drip, "a handshake that drips goes on for ever")
        assert is_served(login)
        bystander.check()
    assert "(headwater.tls.handshake.timeout.ms)" in broker.log


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_nobody_begins_the_handshake_again(tmp_path: Path, version: str) -> None:
    """A renegotiation costs the broker more than the client. TLS 1.3 has none, and only new keys, which are cheap."""
    with secured(tmp_path) as (broker, login, _), Bystander(broker) as bystander:
        key_file = str(login.certificate)
        command = ["openssl", "s_client", "-connect", broker.address(SSL), version, "-CAfile", str(login.authority)]
        process = subprocess.Popen(
            [*command, "-cert", key_file, "-key", key_file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            if "Verify return code" in line:
                break
        # Commands of s_client: R begins the handshake again, K changes keys.
        process.stdin.write("R\n" if version == "-tls1_2" else "K\n" * 20)
        process.stdin.flush()
        if version == "-tls1_2":
            rest, _ = process.communicate(timeout=60)
            assert "no renegotiation" in rest
        else:
            bystander.check()
            rest, _ = process.communicate("Q\n", timeout=60)
            assert "KEYUPDATE" in rest
        assert is_served(login)


# -- the wrong protocol


@pytest.mark.parametrize("sent", [frame(ApiVersionsRequest(), 0), b"GET / HTTP/1.1\r\n\r\n", b"\x80\x2e\x01\0\2" * 9])
def test_what_is_no_tls_on_a_tls_port_is_told_so_in_the_log(tmp_path: Path, sent: bytes) -> None:
    with secured(tmp_path) as (broker, login, _), RawClient(Address(broker.address(SSL))) as client:
        client.send_bytes(sent)
        assert client.is_closed()
        assert "the client does not speak TLS, this port does (security.protocol of the client)" in broker.log
        assert is_served(login)


@pytest.mark.parametrize("listener", ["", SASL_PLAINTEXT])
def test_tls_on_a_port_without_it_is_told_so_in_the_log(tmp_path: Path, listener: str) -> None:
    with secured(tmp_path) as (broker, _, _):
        address = broker.address(listener) if listener else broker.bootstrap_servers
        with RawClient(Address(address)) as client:
            client.send_bytes(client_hello())
            assert client.is_closed()
        assert "the client speaks TLS, this port does not (security.protocol of the client)" in broker.log


# -- certificates


def _huge(authority: TestAuthority) -> Path:
    return authority.issue("huge", extensions=[x509.UnrecognizedExtension(UNKNOWN, bytes(200_000))])


def _large(authority: TestAuthority) -> Path:
    return authority.issue("large", extensions=[x509.UnrecognizedExtension(UNKNOWN, bytes(50_000))])


def _long_name(authority: TestAuthority) -> Path:
    names = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "u" * 64) for _ in range(500)]
    return authority.issue("long-name", subject=x509.Name(names))


def _strange_name(authority: TestAuthority) -> Path:
    name = x509.NameAttribute(NameOID.COMMON_NAME, 'ann,O=x\n\r\0"<>\N{RIGHT-TO-LEFT OVERRIDE}')
    return authority.issue("strange-name", subject=x509.Name([name]))


Issue = Callable[[TestAuthority], Path]
REFUSED: Mapping[str, tuple[Issue, str]] = {
    "huge": (_huge, "excessive message size"),
    "for servers": (lambda authority: authority.issue("server", usage=SERVER), "unsuitable certificate purpose"),
    "weak key": (lambda authority: authority.issue("weak", rsa_bits=1024), "key too weak"),
    "long name": (_long_name, "more than an ACL can name"),
    "signs itself": (lambda authority: authority.issue("itself", signs_itself=True), "self-signed certificate"),
}
TAKEN: Mapping[str, Issue] = {
    "large": _large,
    "many hosts": lambda authority: authority.issue("hosts", hosts=[f"{number}.example" for number in range(3_000)]),
    "strange name": _strange_name,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    with secured(tmp_path_factory.mktemp("certificates")) as site:
        yield site


@pytest.mark.parametrize("kind", REFUSED)
def test_a_hostile_certificate_is_refused_with_a_reason(site: Site, kind: str) -> None:
    issue, reason = REFUSED[kind]
    login = site.login.but(certificate=issue(site.authority))
    # A client with the usual level does not show a weak key.
    context = login.context(ciphers="DEFAULT:@SECLEVEL=0")

    with pytest.raises(OSError), RawSasl(login, context) as client:
        client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)

    wait_until(lambda: reason in site.broker.log, f"the log never says {reason!r}")
    assert is_served(site.login)


@pytest.mark.parametrize("kind", TAKEN)
def test_a_certificate_that_is_only_unusual_is_taken(site: Site, kind: str) -> None:
    assert is_served(site.login.but(certificate=TAKEN[kind](site.authority)))


def test_clients_refuse_a_broker_with_a_certificate_for_another_host(tmp_path: Path) -> None:
    with secured(tmp_path, ["other.example"]) as (broker, login, _):
        with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
            RawSasl(login)
        ours = Cluster(login.bootstrap_servers, security=read_security(login.properties()))
        with ours as cluster, pytest.raises(ClientError, match=r"127\.0\.0\.1"):
            cluster.metadata()
        wait_until(lambda: "the client refused" in broker.log, "the log does not say so")
