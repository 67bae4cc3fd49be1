"""OAUTHBEARER: its one message, and the refusal in two steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigError
from headwater.security.jwt import InvalidToken, ValidToken
from headwater.security.mechanisms import Challenge, Failure, Success
from headwater.security.oauth_bearer import MESSAGE_BYTES_MAX, OAuthBearerServer, encode, error_status
from headwater.security.principals import user

TOKEN = "e30.e30.c2ln"


def validate(token: str) -> ValidToken:
    if token != TOKEN:
        raise InvalidToken("the token has expired (exp)")
    return ValidToken("ann", 7, frozenset())


@pytest.mark.parametrize(
    "message",
    [
        encode(TOKEN),
        encode(TOKEN, {"traceId": "7", "empty": ""}),
        f"n,a=ann,\1auth=Bearer {TOKEN}\1\1".encode(),
        f"n,,\1host=server\1port=9092\1auth=bearer  {TOKEN}\1\1".encode(),
    ],
)
def test_a_valid_token_tells_who_its_bearer_is(message: bytes) -> None:
    assert OAuthBearerServer(validate).respond(message) == Success(user("ann"), expires_ms=7)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"", "not one of OAUTHBEARER"),
        (b"n,,", "not one of OAUTHBEARER"),
        (b"n,,\1\1", "bearer token"),
        (f"n,,\1auth=Bearer {TOKEN}\1".encode(), "not one of OAUTHBEARER"),
        (f"y,,\1auth=Bearer {TOKEN}\1\1".encode(), "not one of OAUTHBEARER"),
        (f"n,a=admin,\1auth=Bearer {TOKEN}\1\1".encode(), "act for another user"),
        (f"n,,\1auth=Basic {TOKEN}\1\1".encode(), "bearer token"),
        (f"n,,\1auth=Bearer {TOKEN}\1auth=Bearer {TOKEN}\1\1".encode(), "KEY=VALUE"),
        (f"n,,\1auth=Bearer {TOKEN}\1k1=v\1\1".encode(), "KEY=VALUE"),
        (f"n,,\1auth=Bearer {TOKEN}\1key\1\1".encode(), "KEY=VALUE"),
        (f"n,,\1auth=Bearer {TOKEN}\1key=\0\1\1".encode(), "KEY=VALUE"),
        (b"n,,\1auth=Bearer \xff\1\1", "not UTF-8"),
        (b"n,,\1auth=Bearer " + b"x" * MESSAGE_BYTES_MAX + b"\1\1", "where up to"),
    ],
)
def test_a_wrong_message_is_refused_and_the_token_is_not_repeated(message: bytes, complaint: str) -> None:
    step = OAuthBearerServer(validate).respond(message)

    assert isinstance(step, Failure)
    assert complaint in step.reason
    assert TOKEN not in repr(step)


def test_the_client_reads_why_its_token_is_refused_before_the_exchange_fails() -> None:
    server = OAuthBearerServer(validate)

    challenge = server.respond(encode("other"))
    assert isinstance(challenge, Challenge)
    assert error_status(challenge.data) == "invalid_token"
    assert challenge.failure == Failure("the token has expired (exp)"), "the client may never come back"
    # Not even a good token helps now.
    for answer in (b"\1", encode(TOKEN)):
        assert server.respond(answer) == Failure("the token has expired (exp)")


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"status": 7}', b"[" * 100_000, b"\xff"])
def test_an_answer_that_is_no_error_has_no_status(answer: bytes) -> None:
    assert error_status(answer) is None


@pytest.mark.parametrize(
    ("token", "extensions"), [("a b", {}), ("", {}), ("a\1", {}), ("a", {"auth": "b"}), ("a", {"k1": ""})]
)
def test_what_cannot_be_sent_is_refused(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        encode(token, extensions)


@given(st.binary(max_size=60))
def test_any_other_bytes_are_a_failure(message: bytes) -> None:
    assert isinstance(OAuthBearerServer(validate).respond(message), Failure)
