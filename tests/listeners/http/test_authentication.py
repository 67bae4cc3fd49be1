"""Who clients of HTTP are: passwords, tokens and certificates, and what happens to those who guess."""

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.broker_security import BrokerSecurity
from headwater.config.broker import BrokerConfig
from headwater.errors import ConfigError
from headwater.testing import Broker
from tests.support.http.client import HttpClient, basic
from tests.support.security.tokens import Issuer

PASSWORDS = {"ann": "secret: of ann", "ben": "geheim über alles"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = BrokerSecurity("SASL_PLAINTEXT", users=PASSWORDS, authorizer=True)
    with Broker(security=security, http=True) as broker:
        yield broker


def test_a_password_lets_its_user_in(http: HttpClient) -> None:
    for _ in range(2):
        assert http.get("/v1/status", **basic("ann", PASSWORDS["ann"])).status == 200


def test_rights_are_those_of_the_user(http: HttpClient) -> None:
    for path in ("/v1/status", "/metrics"):
        answer = http.get(path, **basic("ben", PASSWORDS["ben"]))
        assert (answer.status, answer.json["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic YW5u",  # no colon
        "Basic " + "QQ==" * 3,
        "Bearer abc",
        "Negotiate abc",
        "basic",
        basic("ann", "wrong")["authorization"],
        basic("nobody", "x")["authorization"],
        basic("", "")["authorization"],
        basic("ann\0x", "y")["authorization"],
        basic("ann", "x" * 10_000)["authorization"],
        "Basic //79",
    ],
)
def test_everything_else_is_refused(http: HttpClient, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    for path in ("/v1/status", "/v1/status/", "/metrics", "/nothing/here", "/v1/%73tatus"):
        answer = http.get(path, **headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Basic realm="headwater", charset="UTF-8"')
        assert answer.json["code"] == "SASL_AUTHENTICATION_FAILED"
    for method in ("POST", "OPTIONS", "DELETE", "HEAD", "PATCH"):
        assert http.ask(method, "/v1/status", headers=headers).status == 401


def test_probes_need_no_password(http: HttpClient) -> None:
    assert http.get("/health/live").status == http.get("/health/ready").status == 200


def test_a_new_password_counts_at_once_on_an_open_connection(broker: Broker, http: HttpClient) -> None:
    users = broker.node.broker.access.users
    broker.call(users.set_password("cleo", "first"))
    assert http.get("/v1/status", **basic("cleo", "first")).status == 403
    broker.call(users.set_password("cleo", "second"))
    assert http.get("/v1/status", **basic("cleo", "first")).status == 401
    assert http.get("/v1/status", **basic("cleo", "second")).status == 403


def test_log_ins_are_counted_once_for_each_connection_and_failures_each(broker: Broker) -> None:
    def counts() -> tuple[int, int]:
        with HttpClient(broker, basic("ann", PASSWORDS["ann"])) as client:
            lines = client.get("/metrics").body.decode().splitlines()
        shown = [line.rpartition(" ") for line in lines if line.startswith("headwater_http_authentications_total")]
        found = {name: int(count) for name, _, count in shown}
        name = 'headwater_http_authentications_total{scheme="basic",result="%s"}'
        return found.get(name % "success", 0), found.get(name % "failure", 0)

    successes, failures = counts()
    with HttpClient(broker) as client:
        for _ in range(3):
            client.get("/v1/status", **basic("ann", PASSWORDS["ann"]))
            client.get("/v1/status", **basic("ann", "wrong"))
    assert counts() == (successes + 2, failures + 3)


def test_many_guesses_of_one_address_are_bounded() -> None:
    security = BrokerSecurity("SASL_PLAINTEXT")
    settings = {
        "headwater.connections.unauthenticated.max.per.ip": "1",
        "connection.failed.authentication.delay.ms": "60000",
    }
    with Broker(settings, security=security, http=True) as broker:
        guesser = HttpClient(broker)
        guesser.connection.request("GET", "/v1/status", headers=basic("ann", "guess"))
        with HttpClient(broker) as other:
            while (answer := other.get("/v1/status", **basic("ann", "secret-of-ann"))).status == 200:
                # The guess has not arrived yet.
                continue
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
            assert other.get("/health/live").status == 200
        guesser.connection.close()


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def trusting(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_bytes(issuer.jwks())
    settings = {
        "headwater.http.authentication": "bearer,basic",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "connection.failed.authentication.delay.ms": "0",
    }
    with Broker(settings, http=True) as broker:
        yield broker


class TestTokens:
    def test_a_valid_token_lets_its_user_in(self, trusting: Broker, issuer: Issuer) -> None:
        now_s = int(time.time())
        with HttpClient(trusting) as client:
            token = issuer.token({"sub": "dora", "exp": now_s + 60, "iat": now_s})
            for _ in range(3):
                assert client.get("/v1/status", authorization=f"Bearer {token}").status == 200
            late = issuer.token({"sub": "dora", "exp": now_s - 600, "iat": now_s - 900})
            for wrong in (late, token + "x", token.rpartition(".")[0] + ".", "a b", "ü"):
                answer = client.get("/v1/status", authorization=f"bearer {wrong}".encode().decode("latin-1"))
                assert answer.status == 401
            assert "Bearer" in answer.headers["www-authenticate"]

    def test_the_keys_of_the_issuer_are_needed(self) -> None:
        with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
            BrokerConfig.from_values(
                {"headwater.http.listeners": "127.0.0.1:0", "headwater.http.authentication": "bearer"}
            )


def test_a_certificate_lets_its_user_in() -> None:
    security = BrokerSecurity("SSL", users={"ann": "", "ben": ""}, client_certificates=True, authorizer=True)
    with Broker(security=security, http=True) as broker:
        statuses: dict[str, int] = {}
        for user in ("ann", "ben"):
            context = ssl.create_default_context(cafile=broker.ca_file)
            context.load_cert_chain(Path(broker.client_settings(user)["ssl.certificate.location"]))
            with HttpClient(broker, context=context) as client:
                statuses[user] = client.get("/v1/status").status
        assert statuses == {"ann": 200, "ben": 403}
        with pytest.raises((ssl.SSLError, ConnectionError)), HttpClient(broker) as stranger:
            stranger.get("/v1/status")


def test_a_password_over_tls() -> None:
    with Broker(security="SASL_SSL", http=True) as broker, HttpClient(broker) as client:
        assert client.get("/v1/status").status == 401
        assert client.get("/v1/status", **basic("ann", "secret-of-ann")).status == 200


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"headwater.http.listeners": "0.0.0.0:8080"}, "other machines can reach"),
        ({"headwater.http.listeners": "HTTPS://0.0.0.0:8443"}, "ssl.client.auth=required"),
        ({"headwater.http.listeners": "SASL_SSL://127.0.0.1:1"}, "needs the protocol PLAINTEXT or SSL"),
        ({"headwater.http.listeners": "NEW://127.0.0.1:1"}, "needs the protocol PLAINTEXT or SSL"),
        ({"headwater.http.listeners": "PLAINTEXT://127.0.0.1:1"}, "is the name of a listener of Kafka clients"),
        ({"headwater.http.listeners": "nowhere"}, "HOST:PORT"),
        ({"headwater.http.cors.origins": "example.com"}, "is not an origin"),
        ({"headwater.http.cors.origins": "*"}, "is not an origin"),
        ({"headwater.http.authentication": "digest"}, "basic, bearer"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        BrokerConfig.from_values(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"headwater.http.listeners": "0.0.0.0:8080", "headwater.http.authentication": "basic"},
        {"headwater.http.listeners": "HTTPS://0.0.0.0:8443", "listener.name.https.ssl.client.auth": "required"},
        {"headwater.http.listeners": "0.0.0.0:8080", "headwater.insecure.listeners.allow": "true"},
        {
            "headwater.http.listeners": "127.0.0.1:8080,WEB://0.0.0.0:8443",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,WEB:SSL",
            "listener.name.web.headwater.http.authentication": "basic",
        },
    ],
)
def test_settings_that_are_safe(settings: dict[str, str]) -> None:
    assert BrokerConfig.from_values(settings).http_addresses
