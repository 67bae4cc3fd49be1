"""Delegation tokens over the wire: made by their owner, used through SCRAM by their bearers, until they end.

The Java client and franz-go use them in `tests/interop`; no client library of Python can.
"""

from collections.abc import Callable

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.security.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headwater.protocol.messages.security.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headwater.protocol.messages.security.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headwater.protocol.messages.security.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from headwater.security.delegation_token import password_of
from tests.support.kafka.raw_client import batch_of
from tests.support.security.logins import SASL_PLAINTEXT, SASL_SSL, SCRAM_256, SCRAM_512, SSL
from tests.support.security.raw_sasl import RawSasl
from tests.support.security.secured_broker import SecuredBroker


def create(owner: RawSasl, **changes: object) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return owner.ask(request, CreateDelegationTokenResponse, 3)


def end(owner: RawSasl, hmac: bytes) -> ExpireDelegationTokenResponse:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)
    return owner.ask(request, ExpireDelegationTokenResponse, 2)


def bearer_of(broker: SecuredBroker, token: CreateDelegationTokenResponse, mechanism: str, protocol: str) -> RawSasl:
    login = broker.login(protocol, mechanism)
    return RawSasl(login.but(user=token.token_id, password=password_of(bytes(token.hmac))))


def log_in(bearer: RawSasl) -> ErrorCode:
    return ErrorCode(bearer.scram_after_handshake(is_token=True).error_code)


@pytest.mark.parametrize("protocol", [SASL_SSL, SASL_PLAINTEXT])
@pytest.mark.parametrize("mechanism", [SCRAM_256, SCRAM_512])
def test_the_bearer_of_a_token_acts_as_its_owner_until_it_ends(
    broker: SecuredBroker, topic: str, mechanism: str, protocol: str
) -> None:
    with RawSasl(broker.login(SASL_SSL, SCRAM_512)) as ann:
        ann.log_in()
        token = create(ann)
        assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "ann")
        with bearer_of(broker, token, mechanism, protocol) as bearer:
            assert log_in(bearer) is ErrorCode.NONE
            assert bearer.produce(topic, batch_of(b"1")).error_code == 0
            assert [record.value for record in bearer.records(topic)] == [b"1"]

        assert end(ann, bytes(token.hmac)).error_code == 0
        with bearer_of(broker, token, mechanism, protocol) as bearer:
            assert log_in(bearer) is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert bearer.is_closed()


def test_a_token_is_no_password_and_a_password_no_token(broker: SecuredBroker) -> None:
    with RawSasl(broker.login(SASL_SSL, SCRAM_512)) as ann:
        ann.log_in()
        token = create(ann)
    with bearer_of(broker, token, SCRAM_512, SASL_SSL) as bearer:
        assert bearer.log_in().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with RawSasl(broker.login(SASL_SSL, SCRAM_512)) as password:
        assert log_in(password) is ErrorCode.SASL_AUTHENTICATION_FAILED
    with bearer_of(broker, token, SCRAM_512, SASL_SSL) as other:
        other.login = other.login.but(password="wrong")
        assert log_in(other) is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_the_bearer_of_a_token_makes_no_further_tokens(broker: SecuredBroker) -> None:
    """Otherwise a token would never end."""
    with RawSasl(broker.login(SASL_SSL, SCRAM_512)) as ann:
        ann.log_in()
        token = create(ann)
    with bearer_of(broker, token, SCRAM_512, SASL_SSL) as bearer:
        log_in(bearer)
        assert create(bearer).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        renewal = RenewDelegationTokenRequest(hmac=bytes(token.hmac), renew_period_ms=-1)
        answer = bearer.ask(renewal, RenewDelegationTokenResponse, 2)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert end(bearer, bytes(token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_nobody_sees_renews_or_ends_the_tokens_of_others(
    broker: SecuredBroker, new_user: Callable[..., tuple[str, str]]
) -> None:
    user, password = new_user()
    with RawSasl(broker.login(SASL_SSL, SCRAM_512)) as ann, RawSasl(broker.login(SASL_SSL, SCRAM_512)) as other:
        ann.log_in()
        token = create(ann)
        other.login = other.login.but(user=user, password=password)
        other.log_in()

        described = other.ask(DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse, 3)
        assert (described.error_code, described.tokens) == (0, [])
        refusals = (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        assert end(other, bytes(token.hmac)).error_code in refusals
        asked = create(other, owner_principal_type="User", owner_principal_name="ann")
        assert asked.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert bytes(asked.hmac) == b""
        described = ann.ask(DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse, 3)
        assert token.token_id in [each.token_id for each in described.tokens]


def test_a_session_by_a_token_ends_with_it(broker: SecuredBroker) -> None:
    with RawSasl(broker.login(SSL)) as ann:
        token = create(ann, max_lifetime_ms=100_000)
    with bearer_of(broker, token, SCRAM_512, SASL_SSL) as bearer:
        answer = bearer.scram_after_handshake(is_token=True)
        assert 0 < answer.session_lifetime_ms <= 100_000
