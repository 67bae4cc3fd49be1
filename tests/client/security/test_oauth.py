"""OAUTHBEARER: tokens from a file and from an issuer's endpoint, shown to a real broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client.cluster import Cluster
from headwater.client.errors import AuthenticationFailed, ConnectionLost
from headwater.client.security.oauth import ClientCredentials, TokenFile
from headwater.client.security.security import Security, read_security
from headwater.clock import ManualClock, SystemClock
from headwater.errors import ConfigError, HeadwaterError
from headwater.testing import Broker
from tests.support.security.token_endpoint import CLIENT_ID, SECRET, TokenEndpoint, issued
from tests.support.security.tokens import Issuer, claims

URL = "sasl.oauthbearer.token.endpoint.url"
JAVA = "org.apache.kafka.common.security.oauthbearer"
BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
NAMES_OF_KAFKA = {
    "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
    "sasl.oauthbearer.client.credentials.client.secret": SECRET,
}
NAMES_OF_LIBRDKAFKA = {"sasl.oauthbearer.client.id": CLIENT_ID, "sasl.oauthbearer.client.secret": SECRET}
JAAS = {
    "sasl.login.callback.handler.class": f"{JAVA}.secured.OAuthBearerLoginCallbackHandler",
    "sasl.jaas.config": f'{JAVA}.OAuthBearerLoginModule required clientId="{CLIENT_ID}" clientSecret="{SECRET}" '
    'scope="orders" extension_team="tea";',
}


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def broker(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    keys = tmp_path_factory.mktemp("issuer") / "keys.json"
    keys.write_bytes(issuer.jwks())
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "headwater",
        "connection.failed.authentication.delay.ms": "0",
    }
    with Broker(settings) as running:
        yield running


def token_of(issuer: Issuer, user: str = "ann", audience: str = "headwater") -> str:
    return issuer.token(claims(SystemClock().now_ms() // 1000, sub=user, aud=audience))


def connect(broker: Broker, security: Security) -> None:
    with Cluster(broker.bootstrap_servers, security=security) as cluster:
        assert cluster.metadata().brokers


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("settings", [NAMES_OF_KAFKA, NAMES_OF_LIBRDKAFKA, JAAS])
def test_a_client_gets_its_token_from_the_issuer(
    broker: Broker, issuer: Issuer, tmp_path: Path, settings: dict[str, str], scheme: str
) -> None:
    directory = tmp_path / "endpoint" if scheme == "https" else None
    with TokenEndpoint(lambda: (200, issued(token_of(issuer))), directory=directory) as endpoint:
        trusted = {} if endpoint.ca_file is None else {"https.ca.location": str(endpoint.ca_file)}
        security = read_security({**BEARER, URL: endpoint.url, **settings, **trusted})
        connect(broker, security)
        connect(broker, security)

        scope = {"scope": ["orders"]} if settings is JAAS else {}
        assert endpoint.forms == [{"grant_type": ["client_credentials"], **scope}], "the token was used twice"


def test_a_client_reads_its_token_from_a_file_for_each_connection(
    broker: Broker, issuer: Issuer, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(token_of(issuer) + "\n")
    security = read_security({**BEARER, URL: file.as_uri(), "sasl.jaas.config": "OAuthBearerLoginModule required ;"})
    connect(broker, security)

    file.write_text(token_of(issuer, audience="others"))
    with pytest.raises(AuthenticationFailed, match="does not take our token: invalid_token"):
        connect(broker, security)
    file.write_text("\n")
    with pytest.raises(ConfigError, match=f"{URL}: .*token: there is no token in it"):
        connect(broker, security)
    file.unlink()
    with pytest.raises(ConfigError, match=f"{URL}: .*token: No such file"):
        connect(broker, security)


def test_a_token_is_renewed_before_it_ends_and_after_a_refusal(broker: Broker, issuer: Issuer) -> None:
    clock = ManualClock(0)
    tokens = iter(["one", "two", "three", token_of(issuer)])
    with TokenEndpoint(lambda: (200, issued(next(tokens), 100))) as endpoint:
        source = ClientCredentials(URL, endpoint.url, CLIENT_ID, SECRET, clock=clock)
        assert [source.token(), source.token()] == ["one", "one"]
        clock.advance(79_999)
        assert source.token() == "one"
        clock.advance(1)
        assert source.token() == "two"
        source.forget()
        assert source.token() == "three"


def test_a_token_without_a_lifetime_is_not_kept() -> None:
    tokens = iter(["one", "two"])
    with TokenEndpoint(lambda: (200, issued(next(tokens), None))) as endpoint:
        source = ClientCredentials(URL, endpoint.url, CLIENT_ID, SECRET)
        assert [source.token(), source.token()] == ["one", "two"]


@pytest.mark.parametrize(
    ("answer", "error", "complaint"),
    [
        ((500, b"planted secret"), ConnectionLost, "answers with status 500"),
        ((400, b'{"error": "invalid_scope"}'), AuthenticationFailed, "answers with status 400, 'invalid_scope'"),
        ((302, b""), AuthenticationFailed, "answers with status 302"),
        ((200, b"planted secret"), AuthenticationFailed, "no access_token"),
        ((200, b"[" * 30_000), AuthenticationFailed, "no access_token"),
        ((200, b" " * 100_000 + issued("token")), AuthenticationFailed, "no access_token"),
        ((200, issued("")), ConfigError, "there is no token in it"),
        ((200, issued("t" * 40_000)), ConfigError, "there is no token in it"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_one_clear_error(
    answer: tuple[int, bytes], error: type[HeadwaterError], complaint: str
) -> None:
    with TokenEndpoint(lambda: answer) as endpoint:
        source = ClientCredentials(URL, endpoint.url, CLIENT_ID, SECRET)
        with pytest.raises(error, match=complaint) as raised:
            source.token()
    assert endpoint.url in str(raised.value)
    assert "planted" not in str(raised.value)


def test_a_wrong_secret_is_refused_without_showing_it() -> None:
    with TokenEndpoint(lambda: (200, b"")) as endpoint:
        source = ClientCredentials(URL, endpoint.url, CLIENT_ID, "wrong planted")
        with pytest.raises(AuthenticationFailed, match="status 401, 'invalid_client'") as raised:
            source.token()
    assert "planted" not in f"{raised.value}{source!r}"


def test_an_endpoint_that_cannot_be_reached_or_trusted_is_named(tmp_path: Path) -> None:
    with TokenEndpoint(lambda: (200, issued("t")), directory=tmp_path) as endpoint:
        source = ClientCredentials(URL, endpoint.url, CLIENT_ID, SECRET)
        with pytest.raises(ConnectionLost, match=r"local issuer certificate.*\(https.ca.location\)"):
            source.token()
        source = ClientCredentials(URL, endpoint.url, CLIENT_ID, SECRET, ca_file="/none.pem")
        with pytest.raises(ConfigError, match=r"https.ca.location: /none.pem: No such file"):
            source.token()
    source = ClientCredentials(URL, endpoint.url.replace("https", "http"), CLIENT_ID, SECRET)
    with pytest.raises(ConnectionLost, match="refused"):
        source.token()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, f"{URL} is missing"),
        ({URL: "ftp://issuer/token"}, "neither https://HOST/PATH nor file:///PATH"),
        ({URL: "file://host/path"}, "neither https://HOST/PATH nor file:///PATH"),
        ({URL: "https://ann:secret@issuer/token"}, "neither https://HOST/PATH nor file:///PATH"),
        ({URL: "https://[/token"}, "neither https://HOST/PATH nor file:///PATH"),
        ({URL: "http://issuer.example/token"}, "the client's secret would be sent in clear text"),
        ({URL: "https://issuer/token"}, "sasl.oauthbearer.client.credentials.client.id is missing, or clientId in"),
        ({URL: "file:///token", **NAMES_OF_KAFKA}, "client.id has no use with the file of a token"),
        ({URL: "https://i/t", **NAMES_OF_KAFKA, **JAAS}, "client.credentials.client.id and clientId say the same"),
        ({URL: "https://i/t", "sasl.password": "secret"}, "sasl.password has no use with sasl.mechanism=OAUTHBEARER"),
        ({URL: "https://i/t", **JAAS, "sasl.login.callback.handler.class": "Mine"}, "OAuthBearerLoginCallbackHandler"),
        ({URL: "https://i/t", **JAAS, "sasl.oauthbearer.method": "default"}, "is one of oidc, not 'default'"),
        ({URL: "https://i/t", **JAAS, "sasl.login.read.timeout.ms": "soon"}, "a number of milliseconds"),
        ({URL: "https://i/t", **JAAS, "sasl.oauthbearer.extensions": "auth=x"}, "the SASL extension 'auth'"),
        ({URL: "https://i/t", "sasl.jaas.config": "OAuthBearerLoginModule required x=secret;"}, "option 'x' is not"),
        ({"sasl.mechanism": "PLAIN", URL: "https://i/t"}, "has no use with sasl.mechanism=PLAIN"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as raised:
        read_security({**BEARER, **settings})
    assert "secret" not in str(raised.value).replace("client's secret", "")


def test_extensions_and_time_outs_reach_the_client() -> None:
    security = read_security(
        {
            **BEARER,
            URL: "https://issuer/token",
            **NAMES_OF_LIBRDKAFKA,
            "sasl.oauthbearer.method": "OIDC",
            "sasl.oauthbearer.extensions": "team=tea, region=north",
            "sasl.oauthbearer.scope": "orders",
            "sasl.login.connect.timeout.ms": "5",
            "sasl.oauthbearer.header.urlencode": "true",
        }
    )
    assert "extensions=(('region', 'north'), ('team', 'tea'))" in repr(security)
    assert "scope='orders'" in repr(security)
    assert "connect_timeout_ms=5" in repr(security)
    assert SECRET not in repr(security)


def test_a_file_of_a_token_is_shown_and_its_token_is_not(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("planted")
    source = TokenFile(URL, tmp_path / "token")
    assert source.token() == "planted"
    assert "planted" not in repr(source)
