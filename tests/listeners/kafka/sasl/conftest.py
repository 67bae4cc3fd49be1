"""A broker in this process with one SASL listener, on a manual clock."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.clock import ManualClock
from headwater.testing import Broker
from tests.support.broker.embedded_broker import NOW_MS
from tests.support.security.logins import MECHANISMS, SASL_PLAINTEXT, Login
from tests.support.security.raw_sasl import PASSWORD, Connect, RawSasl
from tests.support.security.tokens import Issuer, claims


@pytest.fixture(scope="package")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def settings() -> dict[str, str]:
    """A test file may have others."""
    return {}


@pytest.fixture
def broker(tmp_path: Path, issuer: Issuer, clock: ManualClock, settings: dict[str, str]) -> Iterator[Broker]:
    keys = tmp_path / "jwks.json"
    keys.write_bytes(issuer.jwks("ES256"))
    given = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "connection.failed.authentication.delay.ms": "0",
        "num.partitions": "1",
        **settings,
    }
    with Broker(given, clock=clock) as broker:
        broker.call(broker.node.broker.access.users.set_password("ann", PASSWORD))
        yield broker


@pytest.fixture
def connect(broker: Broker, issuer: Issuer, clock: ManualClock) -> Iterator[Connect]:
    """Connects as ann, with a mechanism, and changes of her token's claims."""
    opened: list[RawSasl] = []

    def new(mechanism: str = "PLAIN", *, user: str = "ann", password: str = PASSWORD, **changes: object) -> RawSasl:
        login = Login(broker.bootstrap_servers, SASL_PLAINTEXT, Path(), mechanism, user, password)
        if mechanism == "OAUTHBEARER":
            login = login.but(token=lambda: issuer.token(claims(clock.now_ms() // 1000, **changes), "ES256"))
        opened.append(RawSasl(login))
        return opened[-1]

    yield new
    for client in opened:
        client.socket.close()
