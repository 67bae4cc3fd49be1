"""One connection's authentication over the wire: what is served before it, how it fails, how long it lasts."""

import logging

import pytest

from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest
from headwater.security import oauth_bearer, plain
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually, on_loop, sweep
from tests.support.kafka.raw_client import produce_request
from tests.support.readiness import is_readable
from tests.support.security.raw_sasl import Connect

ILLEGAL, FAILED = ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.SASL_AUTHENTICATION_FAILED


def outcomes(broker: Broker, mechanism: str) -> tuple[int, int]:
    """How many successes and failures the metrics count."""
    return on_loop(broker, lambda: outcomes_now(broker, mechanism))


def outcomes_now(broker: Broker, mechanism: str) -> tuple[int, int]:
    (family,) = broker.node.broker.measurements.metrics.collect("headwater_authentications_total")
    found = {tuple(value for _, value in sample.labels): sample.value for sample in family.samples}
    return int(found.get((mechanism, "success"), 0)), int(found.get((mechanism, "failure"), 0))


# -- before authentication


def test_only_the_apis_that_lead_to_authentication_are_served(connect: Connect) -> None:
    client = connect()
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
    client.send(produce_request({"topic": {0: b""}}), 9)
    assert client.is_closed()


def test_a_message_without_a_handshake_is_refused(connect: Connect) -> None:
    client = connect()
    assert client.authenticate(plain.encode("ann", "tea")).error_code == ILLEGAL
    assert client.is_closed()


def test_an_unknown_mechanism_is_refused_with_those_that_there_are(connect: Connect) -> None:
    client = connect()
    told = client.handshake("GSSAPI")
    assert told.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert told.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    assert client.is_closed()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_an_exchange_that_has_begun_cannot_be_begun_again(connect: Connect, mechanism: str) -> None:
    """A client could otherwise try one credential after the other, and no failure would ever be counted."""
    client = connect(mechanism)
    assert client.handshake().error_code == 0
    assert client.handshake().error_code == ILLEGAL
    assert client.is_closed()


def test_bare_messages_are_answered_bare_and_refused_by_the_end_of_the_connection(connect: Connect) -> None:
    client = connect()
    assert client.handshake(version=0).error_code == 0
    message = plain.encode("ann", "tea")
    client.send_bytes(len(message).to_bytes(4, "big") + message)
    assert client.receive_frame() == b""
    client.create("topic")

    wrong = connect()
    wrong.handshake(version=0)
    wrong.send_bytes(len(message).to_bytes(4, "big") + message.replace(b"tea", b"TEA"))
    assert wrong.is_closed()


# -- failures


def test_a_failure_is_counted_logged_and_ends_the_connection(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(password="wrong")
    answer = client.log_in()
    assert answer.error_code == FAILED
    assert client.is_closed()
    assert outcomes(broker, "PLAIN") == (0, 1)
    (line,) = (each for each in caplog.messages if "failed" in each)
    assert line.startswith("authentication of 'ann' at 127.0.0.1:")
    assert line.endswith("with PLAIN failed: unknown user or wrong password")


def test_a_refused_token_counts_although_its_client_never_comes_back(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """RFC 7628 lets the client read the error and answer it, before the exchange fails. Some clients never answer."""
    client = connect("OAUTHBEARER", exp=1)
    assert client.log_in().auth_bytes == b'{"status":"invalid_token"}'
    client.socket.close()
    eventually(broker, lambda: broker.node.connections.connection_count == 0)

    assert outcomes(broker, "OAUTHBEARER") == (0, 1)
    assert any(each.endswith("the token has expired (exp)") for each in caplog.messages)


@pytest.mark.parametrize("answer", [b"\1", b"a good token"])
def test_a_refused_token_counts_once_whatever_its_client_answers(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture, answer: bytes
) -> None:
    client = connect("OAUTHBEARER", exp=1)
    client.log_in()
    if answer != b"\1":
        token = connect("OAUTHBEARER").login.token
        assert token is not None
        answer = oauth_bearer.encode(token())
    assert client.authenticate(answer).error_code == FAILED
    assert client.is_closed()
    assert outcomes(broker, "OAUTHBEARER") == (0, 1)
    assert sum("failed" in each for each in caplog.messages) == 1


def test_the_name_that_a_stranger_gives_is_logged_in_part(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    connect(user="x\n" * 1000).log_in()
    (line,) = (each for each in caplog.messages if "failed" in each)
    assert line.startswith(f"authentication of {'x' + chr(92) + 'n'!s}"[:18])
    assert line.count("x\\n") == 32
    assert "\n" not in line


def test_many_failures_are_logged_as_a_number(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    # The pool sweeps by itself otherwise.
    sweeping = broker.node.connections._sweeping
    assert sweeping is not None
    on_loop(broker, sweeping.cancel)
    for _ in range(30):
        connect(password="wrong").log_in()
    assert sum("authentication of" in each for each in caplog.messages) == 20
    sweep(broker)
    assert "10 more failed authentications in the last second are not logged one by one" in caplog.messages


# -- sessions that end


sessions_end = pytest.mark.parametrize("settings", [{"connections.max.reauth.ms": "60000"}], ids=[""])


@sessions_end
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_session_ends_unless_its_client_authenticates_again(
    broker: Broker, connect: Connect, clock: ManualClock, mechanism: str
) -> None:
    idle, renewed = connect(mechanism), connect(mechanism)
    for client in (idle, renewed):
        assert client.log_in().error_code == 0
        assert client.session_lifetime_ms == 60_000
    idle.create("topic")
    clock.advance(59_000)
    assert renewed.log_in().error_code == 0
    clock.advance(1_000)
    sweep(broker)

    renewed.produce("topic", None)
    idle.send(produce_request({"topic": {0: b""}}), 9)
    assert idle.is_closed()


@sessions_end
def test_an_ended_session_can_be_renewed_until_the_client_sends_something_else(
    broker: Broker, connect: Connect, clock: ManualClock
) -> None:
    client = connect()
    client.log_in()
    clock.advance(60_000)
    sweep(broker)
    assert client.log_in().error_code == 0
    client.create("topic")


@sessions_end
def test_the_session_of_a_token_ends_with_the_token(connect: Connect, clock: ManualClock) -> None:
    client = connect("OAUTHBEARER", exp=clock.now_ms() // 1000 + 10)
    client.log_in()
    assert client.session_lifetime_ms == 10_000 + 30_000, "its end, and by what clocks may be apart"


@sessions_end
def test_a_session_belongs_to_one_user_and_one_mechanism(broker: Broker, connect: Connect) -> None:
    broker.call(broker.node.broker.access.users.set_password("bob", "tea"))
    other_user = connect()
    other_user.log_in()
    other_user.handshake()
    answer = other_user.authenticate(plain.encode("bob", "tea"))
    assert (answer.error_code, answer.error_message) == (FAILED, "Cannot change principals during re-authentication")
    assert other_user.is_closed()

    other_mechanism = connect()
    other_mechanism.log_in()
    other_mechanism.handshake("SCRAM-SHA-256")
    assert other_mechanism.authenticate(b"n,,n=ann,r=nonce").error_code == FAILED
    assert other_mechanism.is_closed()


def test_without_a_limit_nobody_authenticates_again(connect: Connect) -> None:
    client = connect()
    client.log_in()
    assert client.handshake().error_code == ILLEGAL
    client.create("topic")


# -- many, and slow ones


def test_a_connection_that_does_not_authenticate_in_time_is_closed(
    broker: Broker, connect: Connect, clock: ManualClock
) -> None:
    silent, half = connect(), connect("SCRAM-SHA-256")
    half.handshake()
    done = connect()
    done.log_in()
    clock.advance(30_000)
    sweep(broker)
    assert silent.is_closed()
    assert half.is_closed()
    done.create("topic")


@pytest.mark.parametrize("settings", [{"connection.failed.authentication.delay.ms": "60000"}], ids=[""])
def test_a_failed_authentication_waits_and_keeps_nobody_else_waiting(broker: Broker, connect: Connect) -> None:
    wrong = connect(password="wrong")
    wrong.handshake()
    wrong.send(SaslAuthenticateRequest(auth_bytes=plain.encode("ann", "wrong")), 2)
    eventually(broker, lambda: outcomes_now(broker, "PLAIN") == (0, 1))

    assert connect().log_in().error_code == 0
    assert not is_readable(wrong.socket), "the answer to a wrong password came at once"


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
