"""PLAIN on the broker's side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.security.mechanisms import Failure, Step, Success
from headwater.security.plain import MESSAGE_BYTES_MAX, PlainServer, encode
from headwater.security.principals import user


def verify(name: str, password: str) -> Step:
    return Success(user(name)) if password == "tea" else Failure("unknown user or wrong password", name)


@pytest.mark.parametrize("message", [b"\0ann\0tea", b"ann\0ann\0tea", encode("ann", "tea")])
def test_name_and_password_are_verified(message: bytes) -> None:
    assert PlainServer(verify).respond(message) == Success(user("ann"))


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"\0ann\0wrong", "wrong password"),
        (b"", "not one of PLAIN"),
        (b"ann\0tea", "not one of PLAIN"),
        (b"\0ann\0tea\0", "not one of PLAIN"),
        (b"\0\0tea", "empty"),
        (b"\0ann\0", "empty"),
        (b"\0\xff\0tea", "not UTF-8"),
        (b"admin\0ann\0tea", "act for another user"),
        (b"\0ann\0" + b"x" * MESSAGE_BYTES_MAX, "bytes, where up to 4096"),
    ],
)
def test_a_wrong_message_is_refused_and_its_password_is_not_repeated(message: bytes, complaint: str) -> None:
    step = PlainServer(verify).respond(message)

    assert isinstance(step, Failure)
    assert complaint in step.reason
    assert "tea" not in repr(step)


@given(st.binary(max_size=60))
def test_any_other_bytes_are_a_failure(message: bytes) -> None:
    assert isinstance(PlainServer(verify).respond(message), Failure)
