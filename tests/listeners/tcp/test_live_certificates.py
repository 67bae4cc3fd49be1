"""A listener's certificate: what is wrong with it, when it ends, and how it is replaced while clients are connected."""

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from headwater.certificate_authority import CertificateAuthority
from headwater.client.cluster import Cluster
from headwater.client.metrics import read_metrics
from headwater.client.security.security import read_security
from headwater.clock import ManualClock, SystemClock
from headwater.config.broker import BrokerConfig
from headwater.config.live import LiveConfig
from headwater.endpoint import Endpoint
from headwater.errors import ConfigError
from headwater.listeners.tcp.tls.live_context import LiveContext
from headwater.testing import Broker

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
LISTENERS = {"listeners": "SSL://127.0.0.1:0"}
OURS = "ssl.keystore.location"


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path / "tls", ManualClock(NOW_MS))
    made.create()
    return made


@pytest.fixture
def identity(authority: CertificateAuthority) -> Path:
    """Valid for sixty days."""
    return authority.issue_server((), 60)


def live_context(clock: ManualClock, **settings: object) -> LiveContext:
    named = {name.replace("__", "."): str(value) for name, value in settings.items()}
    config = BrokerConfig.from_values({**LISTENERS, **named})
    return LiveContext(LiveConfig(config), config.listener_addresses[0], clock)


# -- what is wrong with it


def blocks(identity: Path) -> tuple[str, str]:
    """The key and the certificate."""
    key, begin, certificate = identity.read_text().partition("-----BEGIN CERTIFICATE-----")
    return key, begin + certificate


def encrypted(identity: Path) -> str:
    key = load_pem_private_key(identity.read_bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")).decode()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: path.unlink(), "No such file or directory"),
        (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
        (lambda path: path.write_text(""), "this is not PEM: there is no -----BEGIN ...----- with an end"),
        (lambda path: path.write_text("secret"), "this is not PEM"),
        (lambda path: path.write_bytes(b"\xff" * 100), "this is not PEM"),
        (lambda path: path.write_text("x" * (5 << 20)), "more than 4194304 bytes"),
        (lambda path: path.write_text(blocks(path)[0]), "there is no certificate in it"),
        (lambda path: path.write_text(blocks(path)[1]), "there is no private key in it"),
        (lambda path: path.write_text(blocks(path)[0] + blocks(path)[1].replace("\nM", "\n!", 1)), "is damaged"),
        (lambda path: path.write_text(encrypted(path) + blocks(path)[1]), "ssl.key.password is not set"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named_with_what_is_wrong(
    identity: Path, damage: Callable[[Path], object], problem: str
) -> None:
    damage(identity)
    with pytest.raises(ConfigError) as raised:
        live_context(ManualClock(NOW_MS), ssl__keystore__location=identity)
    assert str(raised.value).startswith(f"{OURS}: {identity}: ")
    assert problem in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("now_ms", "problem"),
    [
        (NOW_MS + 61 * DAY_MS, "the certificate expired on 2024-01-13"),
        (NOW_MS - DAY_MS, "the certificate is not valid before 2023-11-14"),
    ],
)
def test_a_certificate_out_of_its_time_is_refused(identity: Path, now_ms: int, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        live_context(ManualClock(now_ms), ssl__keystore__location=identity)
    assert str(identity) in str(raised.value)


def test_keys_that_do_not_fit_are_named(identity: Path, authority: CertificateAuthority, tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    other = tmp_path / "other.key"
    other.write_text(blocks(authority.issue_client("ann", 1))[0])
    locations = {"ssl__keystore__location": identity, "headwater__tls__key__location": other}
    with pytest.raises(ConfigError, match=f"{other}: the private key does not belong to the certificate"):
        live_context(clock, **locations)
    other.write_text(encrypted(identity))
    with pytest.raises(ConfigError, match=r"ssl.key.password does not open the private key") as raised:
        live_context(clock, **locations, ssl__key__password="wrong secret")
    assert "secret" not in str(raised.value)
    live_context(clock, **locations, ssl__key__password="secret")


def test_authorities_of_clients_are_named_too(identity: Path, tmp_path: Path) -> None:
    clock, empty = ManualClock(NOW_MS), tmp_path / "empty.pem"
    wanting = {"ssl__keystore__location": identity, "ssl__client__auth": "required"}
    with pytest.raises(ConfigError, match=r"ssl.client.auth=required: set ssl.truststore.location"):
        live_context(clock, **wanting)
    empty.write_text(blocks(identity)[0])
    with pytest.raises(ConfigError, match=rf"ssl.truststore.location: {empty}: there is no certificate in it"):
        live_context(clock, **wanting, ssl__truststore__location=empty)


def test_a_listener_without_a_certificate_says_how_to_get_one() -> None:
    with pytest.raises(ConfigError, match=r"SSL speaks SSL and needs a certificate: .*`headwater tls init` makes one"):
        live_context(ManualClock(NOW_MS))


# -- when it ends


def test_its_end_is_announced_thirty_days_ahead_once_a_day(identity: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(NOW_MS)
    live = live_context(clock, ssl__keystore__location=identity)
    assert live.expires_in_s == pytest.approx(60 * DAY_MS / 1000, abs=301)
    clock.advance(29 * DAY_MS)
    live.warn_of_expiry()
    assert caplog.messages == []

    clock.advance(DAY_MS)
    for _ in range(2):
        live.warn_of_expiry()
    assert caplog.messages == ["the certificate of listener SSL expires on 2024-01-13 22:08:20 UTC"]
    clock.advance(DAY_MS)
    live.warn_of_expiry()
    assert len(caplog.messages) == 2
    clock.advance(30 * DAY_MS)
    live.warn_of_expiry()
    assert caplog.records[-1].levelno == logging.ERROR
    assert "expired on 2024-01-13 22:08:20 UTC: clients refuse it" in caplog.messages[-1]


def test_its_end_is_a_metric() -> None:
    with Broker(security="SSL") as broker:
        settings = read_security(broker.client_settings())
        with Cluster(broker.bootstrap_servers, security=settings) as cluster:
            (families,) = read_metrics(cluster, "headwater_tls_certificate_expiry").values()
    ((sample,),) = (family.samples for family in families)
    assert dict(sample.labels) == {"listener": "SSL"}
    assert 29 < sample.value / 86_400 < 30


# -- how it is replaced


@pytest.fixture
def renewable(tmp_path: Path) -> Iterator[tuple[Broker, CertificateAuthority, Path]]:
    authority = CertificateAuthority(tmp_path / "tls", SystemClock())
    authority.create()
    first = authority.issue_server((), 1)
    with Broker({**LISTENERS, OURS: str(first)}) as broker:
        yield broker, authority, first


def serial_of(broker: Broker, authority: CertificateAuthority) -> tuple[ssl.SSLSocket, str]:
    """A connection, and the serial number of the certificate that the broker showed."""
    context = ssl.create_default_context(cafile=authority.certificate)
    connected = socket.create_connection(Endpoint.parse(broker.bootstrap_servers), 20)
    secured = context.wrap_socket(connected, server_hostname="localhost")
    certificate = secured.getpeercert()
    assert certificate is not None
    return secured, str(certificate["serialNumber"])


async def look_at_files(broker: Broker) -> None:
    """As the sweep does about once a second. A file has to stand still from one look to the next."""
    (handshakes,) = broker.node.connections._handshakes
    for _ in range(2):
        handshakes.live.check_files()


def test_a_new_certificate_is_used_and_connections_keep_theirs(
    renewable: tuple[Broker, CertificateAuthority, Path], caplog: pytest.LogCaptureFixture
) -> None:
    broker, authority, file = renewable
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
    with Cluster(broker.bootstrap_servers, security=read_security(settings)) as cluster:
        cluster.metadata()
        before, first = serial_of(broker, authority)
        file.unlink()
        file.write_text(authority.issue_server((), 1).read_text())
        broker.call(look_at_files(broker))
        after, second = serial_of(broker, authority)
        assert first != second
        # On the connection from before.
        cluster.metadata()
        assert len(cluster._connections) == 1

        file.write_text("broken")
        broker.call(look_at_files(broker))
        again, third = serial_of(broker, authority)
        assert third == second
        assert f"keeps its certificate, because the new one is refused: {OURS}: {file}: this is not PEM" in caplog.text
    for each in (before, after, again):
        each.close()
