"""The Java client, franz-go and kcat through every way to authenticate: their work, and what they make of a refusal.

kcat has no transactions; only the Java client and franz-go know delegation tokens.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.interop import toolchain
from tests.interop.clients.kcat import Kcat
from tests.interop.clients.program import Program
from tests.interop.exchange import Record, Refused
from tests.support.security.logins import (
    OAUTHBEARER,
    PLAIN,
    SASL_PLAINTEXT,
    SASL_SSL,
    SCRAM_256,
    SCRAM_512,
    SSL,
    WAYS,
    Login,
)
from tests.support.security.secured_broker import ANN, SecuredBroker, secured_broker
from tests.support.security.token_endpoint import CLIENT_ID, SECRET, TokenEndpoint, issued

pytestmark = pytest.mark.interop

_MODULES = "org.apache.kafka.common.security"
_LOGIN_MODULES = {PLAIN: "plain.PlainLoginModule", OAUTHBEARER: "oauthbearer.OAuthBearerLoginModule"}
# What each client says of credentials, and of certificates, that do not count.
NOT_LET_IN = r"(?i)authenticat|SASL_AUTHENTICATION_FAILED|certificate|SSL handshake failed|broken|EOF|oauth response"
# Before, librdkafka sent a wrong nonce (its pull request 4895), which Kafka 4 does not take either.
SCRAM_SINCE = (2, 6, 1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def topic(broker: SecuredBroker, new_topic: Callable[[str], str]) -> str:
    return broker.create_topic(new_topic("secured"))


class Client(Protocol):
    def exchange(self, login: Login, topic: str) -> list[str]:
        """The values that it wrote and read again."""
        ...

    def connect(self, login: Login) -> None:
        """Raises Refused."""
        ...


class Java:
    def __init__(self, program: Program, directory: Path) -> None:
        self.program = program
        self._directory = directory

    def exchange(self, login: Login, topic: str) -> list[str]:
        return self.ask("exchange", login, topic=topic)["values"]

    def connect(self, login: Login) -> None:
        self.ask("connect", login)

    def ask(self, do: str, login: Login, *, is_token: bool = False, **arguments: str) -> dict[str, Any]:
        options = self._options(login, is_token=is_token)
        command = {"do": do, "bootstrap": login.bootstrap_servers, "options": options, **arguments}
        return self.program.ask(command)

    def _options(self, login: Login, *, is_token: bool) -> Mapping[str, str]:
        options = {"security.protocol": login.protocol, "default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
        if login.is_encrypted:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(login.authority)}
        if login.certificate is not None:
            options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(login.certificate)}
        if login.is_sasl:
            module = f"{_MODULES}.{_LOGIN_MODULES.get(login.mechanism, 'scram.ScramLoginModule')}"
            given = f' username="{login.user}" password="{login.password}"' if login.token is None else ""
            extension = ' tokenauth="true"' if is_token else ""
            options |= {
                "sasl.mechanism": login.mechanism,
                "sasl.jaas.config": f"{module} required{given}{extension};",
            }
        if login.token is not None:
            token = self._directory / "token"
            token.write_text(login.token())
            handler = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
            options |= {
                "sasl.login.callback.handler.class": handler,
                "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
            }
        return options


class FranzGo:
    def __init__(self, program: Program) -> None:
        self._program = program

    def exchange(self, login: Login, topic: str) -> list[str]:
        return self.ask("exchange", login, topic=topic)["values"]

    def connect(self, login: Login) -> None:
        self.ask("connect", login)

    def ask(self, do: str, login: Login, *, is_token: bool = False, **arguments: str) -> dict[str, Any]:
        given = {
            "authority": str(login.authority) if login.is_encrypted else "",
            "certificate": str(login.certificate or ""),
            "mechanism": login.mechanism,
            "user": login.user,
            "password": login.password,
            "token": "" if login.token is None else login.token(),
            "isToken": is_token,
        }
        return self._program.ask({"do": do, "bootstrap": login.bootstrap_servers, "login": given, **arguments})


@pytest.fixture(scope="module")
def java(java_program: Program, tmp_path_factory: pytest.TempPathFactory) -> Java:
    return Java(java_program, tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def franz(go_program: Program) -> FranzGo:
    return FranzGo(go_program)


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Client:
    return request.getfixturevalue(request.param)


each_client = pytest.mark.parametrize("client", ["java", "franz"], indirect=True)


@each_client
@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_a_client_writes_reads_and_is_in_groups_and_transactions(
    broker: SecuredBroker, topic: str, client: Client, protocol: str, mechanism: str
) -> None:
    assert client.exchange(broker.login(protocol, mechanism), topic) == ["1", "2"]


def wrong(broker: SecuredBroker, tmp_path: Path, kind: str) -> Login:
    issue = broker.authority.issue
    match kind:
        case "no certificate":
            return broker.login(SSL).but(certificate=None)
        case "expired certificate":
            return broker.login(SSL).but(certificate=issue(ANN, file=tmp_path.name, ends_in=-timedelta(hours=1)))
        case "expired token":
            return broker.login(SASL_SSL, OAUTHBEARER).but(token=lambda: broker.token(exp=broker.now_s() - 60))
        case "foreign token":
            return broker.login(SASL_SSL, OAUTHBEARER).but(token=lambda: broker.token(aud="others"))
        case "unknown user":
            return broker.login(SASL_PLAINTEXT, SCRAM_256).but(user="nobody")
        case _:
            return broker.login(SASL_SSL, kind).but(password="wrong")


@each_client
@pytest.mark.parametrize(
    "kind", ["no certificate", "expired certificate", "expired token", "unknown user", PLAIN, SCRAM_256, SCRAM_512]
)
def test_a_client_with_wrong_credentials_is_told_so(
    broker: SecuredBroker, tmp_path: Path, client: Client, kind: str
) -> None:
    with pytest.raises(Refused, match=NOT_LET_IN) as refused:
        client.connect(wrong(broker, tmp_path, kind))
    assert "wrong" not in str(refused.value)


@pytest.mark.parametrize("mechanism", [SCRAM_256, SCRAM_512])
def test_a_delegation_token_is_made_used_and_ended(
    broker: SecuredBroker, topic: str, java: Java, franz: FranzGo, mechanism: str
) -> None:
    ann = broker.login(SASL_SSL, SCRAM_512)
    token = java.ask("createToken", ann)
    assert token["owner"] == "User:ann"
    bearer = broker.login(SASL_SSL, mechanism).but(user=token["id"], password=token["hmac"])
    other_topic = broker.create_topic(f"{topic}-of-go")
    assert java.ask("exchange", bearer, topic=topic, is_token=True)["values"] == ["1", "2"]
    assert franz.ask("exchange", bearer, topic=other_topic, is_token=True)["values"] == ["1", "2"]

    java.ask("expireToken", ann, hmac=token["hmac"])
    for client in (java, franz):
        with pytest.raises(Refused, match=NOT_LET_IN):
            client.ask("connect", bearer, is_token=True)


# -- kcat


@pytest.fixture
def kcat() -> Iterator[Callable[[Login], Kcat]]:
    """Makes a kcat that logs in so; its tokens come from an issuer's endpoint."""
    path, environment = toolchain.kcat(), toolchain.newer_librdkafka()
    tokens: list[Callable[[], str]] = []

    def logged_in(login: Login) -> Kcat:
        settings = login.properties()
        if login.token is not None:
            tokens.append(login.token)
            settings |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": CLIENT_ID,
                "sasl.oauthbearer.client.secret": SECRET,
                "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            }
        return Kcat(path, login.bootstrap_servers, settings, environment)

    with TokenEndpoint(lambda: (200, issued(tokens[-1]()))) as endpoint:
        yield logged_in


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_kcat_writes_and_reads(
    broker: SecuredBroker, topic: str, kcat: Callable[[Login], Kcat], protocol: str, mechanism: str
) -> None:
    ann = kcat(broker.login(protocol, mechanism))
    ann.produce(topic, [Record(key=b"k", value=b"1")])
    assert [record.value for record in ann.consume(topic, 1).values()] == [b"1"]


@pytest.mark.parametrize("kind", ["no certificate", "expired certificate", "foreign token", PLAIN, SCRAM_256])
def test_kcat_with_wrong_credentials_ends_with_an_error(
    broker: SecuredBroker, tmp_path: Path, kcat: Callable[[Login], Kcat], kind: str
) -> None:
    with pytest.raises(AssertionError, match="ERROR"):
        kcat(wrong(broker, tmp_path, kind)).topics()


def test_scram_of_an_old_librdkafka_is_refused_with_a_hint(broker: SecuredBroker) -> None:
    """It repeats its own half of the nonce, which Kafka has refused since CVE-2024-56128."""
    path, login = toolchain.kcat(), broker.login(SASL_SSL, SCRAM_512)
    if toolchain.librdkafka_version(path) >= SCRAM_SINCE:
        pytest.skip("kcat's librdkafka is not that old")
    with pytest.raises(AssertionError, match="ERROR"):
        Kcat(path, login.bootstrap_servers, login.properties()).topics()
    broker.wait_for_log("another nonce (as librdkafka before 2.6.1 sends)")
