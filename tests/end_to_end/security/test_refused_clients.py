"""Wrong, unknown, expired and revoked credentials: real clients are told so, and the broker's log has the reason."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.security.authority import TestAuthority
from tests.support.security.clients import CLIENTS, is_let_in
from tests.support.security.logins import (
    OAUTHBEARER,
    PLAIN,
    SASL_PLAINTEXT,
    SASL_SSL,
    SCRAM_256,
    SCRAM_512,
    SSL,
)
from tests.support.security.raw_sasl import RawSasl
from tests.support.security.secured_broker import ANN, SecuredBroker
from tests.support.security.tokens import Issuer, claims

SASL_AUTHENTICATION_FAILED = 58
NewUser = Callable[..., tuple[str, str]]

each_client = pytest.mark.parametrize("client", CLIENTS)
each_password_mechanism = pytest.mark.parametrize("mechanism", [PLAIN, SCRAM_256, SCRAM_512])


@each_client
@each_password_mechanism
def test_an_unknown_user_is_refused(broker: SecuredBroker, client: str, mechanism: str) -> None:
    unknown = f"unknown-{uuid4().hex}"

    assert not is_let_in(client, broker.login(SASL_PLAINTEXT, mechanism).but(user=unknown))

    broker.wait_for_log(f"authentication of '{unknown}'")


@each_client
@each_password_mechanism
def test_a_wrong_password_is_refused(broker: SecuredBroker, new_user: NewUser, client: str, mechanism: str) -> None:
    user, _ = new_user()

    assert not is_let_in(client, broker.login(SASL_SSL, mechanism).but(user=user, password="wrong"))

    broker.wait_for_log(f"authentication of '{user}'")


@pytest.mark.parametrize(
    ("client", "changes", "reason"),
    [
        *((client, {"exp": 1}, "the token has expired (exp)") for client in CLIENTS),
        ("aiokafka", {"nbf": 4_000_000_000}, "the token is not valid yet (nbf)"),
        ("aiokafka", {"iss": "https://other"}, "not by 'https://issuer' (iss)"),
        ("aiokafka", {"aud": "other"}, "the token is for somebody else (aud)"),
        ("aiokafka", {"sub": None}, "the token does not say who its bearer is (sub)"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_token_that_does_not_count_is_refused(
    broker: SecuredBroker, client: str, changes: dict[str, object], reason: str
) -> None:
    before = broker.process.log.count(reason)

    assert not is_let_in(client, broker.login(SASL_SSL, OAUTHBEARER).but(token=lambda: broker.token(**changes)))

    # aiokafka hangs up without the second message that the RFC asks for.
    broker.wait_for_log(reason, before + 1)


def test_a_token_of_another_issuer_is_refused(broker: SecuredBroker) -> None:
    forged = Issuer().token(claims(int(time.time())), "ES256")

    assert not is_let_in("confluent", broker.login(SASL_SSL, OAUTHBEARER).but(token=lambda: forged))

    broker.wait_for_log("the token's signature is wrong")
    assert forged not in broker.process.log


# -- certificates


@pytest.mark.parametrize(
    ("client", "kind"),
    [
        *((client, "expired") for client in CLIENTS),
        *(("aiokafka", kind) for kind in ("none", "not valid yet", "of another authority", "of itself")),
    ],
)
def test_a_certificate_that_does_not_count_is_refused(
    broker: SecuredBroker, tmp_path: Path, client: str, kind: str
) -> None:
    good, issue = broker.login(SSL), broker.authority.issue
    day = timedelta(days=1)
    name = uuid4().hex
    match kind:
        case "none":
            login, reason = good.but(certificate=None), "peer did not return a certificate"
        case "expired":
            login, reason = good.but(certificate=issue(ANN, file=name, ends_in=-day / 2)), "certificate has expired"
        case "not valid yet":
            login, reason = good.but(certificate=issue(ANN, file=name, begins_in=day)), "certificate is not yet valid"
        case "of another authority":
            other = TestAuthority(tmp_path, "other")
            login, reason = good.but(certificate=other.issue(ANN)), "unable to get local issuer certificate"
        case _:
            itself = issue(ANN, file=name, signs_itself=True)
            login, reason = good.but(certificate=itself), "self-signed certificate"
    before = broker.process.log.count(reason)

    assert not is_let_in(client, login)

    broker.wait_for_log(reason, before + 1)


@each_client
def test_a_client_does_not_talk_to_a_broker_of_another_authority(
    broker: SecuredBroker, tmp_path: Path, client: str
) -> None:
    other = TestAuthority(tmp_path, "other")

    assert not is_let_in(client, broker.login(SASL_SSL, SCRAM_512).but(authority=other.certificate))


# -- users that had access, and have it no more


@each_password_mechanism
def test_a_deleted_user_is_not_let_in_again(broker: SecuredBroker, new_user: NewUser, mechanism: str) -> None:
    user, password = new_user()
    login = broker.login(SASL_SSL, mechanism).but(user=user, password=password)
    assert is_let_in("confluent", login)

    broker.delete_user(user)

    # PLAIN remembers the passwords that it has verified.
    assert not is_let_in("confluent", login)


@each_password_mechanism
def test_a_changed_password_counts_at_once_and_the_old_one_no_more(
    broker: SecuredBroker, new_user: NewUser, mechanism: str
) -> None:
    user, password = new_user()
    login = broker.login(SASL_PLAINTEXT, mechanism).but(user=user, password=password)
    with RawSasl(login) as client:
        assert client.log_in().error_code == 0

    broker.set_password(user, "another one")

    with RawSasl(login) as client:
        assert client.log_in().error_code == SASL_AUTHENTICATION_FAILED
    with RawSasl(login.but(password="another one")) as client:
        assert client.log_in().error_code == 0


@each_client
def test_a_revoked_role_counts_at_once(broker: SecuredBroker, topic: str, new_user: NewUser, client: str) -> None:
    user, password = new_user("reader", "writer")
    login = broker.login(SASL_SSL, SCRAM_512).but(user=user, password=password)
    with RawSasl(login) as connected:
        assert connected.log_in().error_code == 0
        CLIENTS[client](login).produce(topic, [b"1"])
        assert [record.value for record in connected.records(topic)] == [b"1"]

        broker.revoke(user, "writer")
        broker.revoke(user, "reader")

        assert connected.produce(topic, None).error_code == 29, "its connection is as good as a new one"
        assert connected.fetch(topic, 0).error_code == 29
    with pytest.raises(Exception, match=r"(?i)authoriz"):
        CLIENTS[client](login).produce(topic, [b"2"])


def test_a_revoked_certificate_is_refused(broker: SecuredBroker) -> None:
    """The list of revoked certificates lies in the truststore, which is read again while the broker runs."""
    revoked = broker.authority.issue("eve")
    login = broker.login(SSL).but(certificate=revoked)
    assert is_let_in("confluent", login)

    with broker.authority.certificate.open("a") as truststore:
        truststore.write(broker.authority.revoke(revoked))
    broker.process.reload()
    broker.wait_for_log("the certificate of listener SSL is loaded again")

    assert not is_let_in("confluent", login)
    broker.wait_for_log("certificate revoked")
    assert is_let_in("confluent", broker.login(SSL))
