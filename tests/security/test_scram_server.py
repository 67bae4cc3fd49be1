"""SCRAM on the broker's side: the example exchange of the RFC, our own client, and dishonest clients."""

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.security.mechanisms import Challenge, Failure, Step, Success
from headwater.security.principals import user
from headwater.security.scram import (
    MESSAGE_BYTES_MAX,
    Account,
    ScramClient,
    ScramServer,
    fake_keys,
    is_password,
    keys_of,
)
from headwater.security.scram_keys import MECHANISMS, ScramKeys, ScramMechanism

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCE = CLIENT_NONCE + SERVER_NONCE
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
KEYS = {each.name: keys_of(each.digest, b"pencil", SALT) for each in MECHANISMS.values()}
SECRET = b"of this broker"


def find_in(mechanism: ScramMechanism, *names: str) -> Callable[[str, bool], Account]:
    def find(name: str, is_token: bool) -> Account:
        known = name in names and not is_token
        keys = KEYS[mechanism.name] if known else fake_keys(mechanism, SECRET, name, len(SALT), 4096)
        return Account(user(name), keys)

    return find


def server(*names: str) -> ScramServer:
    return ScramServer(SHA_256, find_in(SHA_256, *(names or ("user",))), SERVER_NONCE)


def failure_of(step: Step) -> str:
    assert isinstance(step, Failure)
    return step.reason


def test_the_exchange_of_rfc_7677() -> None:
    scram = server()

    assert scram.respond(FIRST) == Challenge(f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert scram.respond(FINAL) == Success(user("user"), b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["ann", "a=b,c", "=2C", "Jürgen", "x" * 500])
def test_our_client_and_our_server_prove_each_other_the_password(mechanism: ScramMechanism, name: str) -> None:
    client = ScramClient(mechanism.digest, name, "pencil", "client-nonce")
    scram = ScramServer(mechanism, find_in(mechanism, name), "server-nonce")

    challenge = scram.respond(client.first())
    assert isinstance(challenge, Challenge)
    success = scram.respond(client.final(challenge.data))

    assert isinstance(success, Success)
    assert success.principal == user(name)
    client.verify(success.data)


def test_an_unknown_user_meets_the_same_exchange_as_a_wrong_password() -> None:
    outcomes: list[str] = []
    for name in ("user", "nobody"):
        client, scram = ScramClient("sha256", name, "pen", "client-nonce"), server()
        challenge = scram.respond(client.first())
        assert isinstance(challenge, Challenge)
        assert challenge.data.endswith(b"==,i=4096")
        outcomes.append(failure_of(scram.respond(client.final(challenge.data))))

    assert outcomes == ["unknown user or wrong password"] * 2


def test_the_salt_of_an_unknown_user_is_always_the_same_and_that_of_another_user_is_not() -> None:
    first, again, other = (server().respond(b"n,,n=%s,r=abc" % name) for name in (b"nobody", b"nobody", b"nobody2"))

    assert first == again
    assert first != other


def test_the_extension_of_tokens_finds_tokens_and_not_users() -> None:
    found: list[tuple[str, bool]] = []

    def find(name: str, is_token: bool) -> Account:
        found.append((name, is_token))
        return Account(user("owner"), KEYS[SHA_256.name], expires_ms=7)

    client = ScramClient("sha256", "token-id", "pencil", "client-nonce", is_token=True)
    scram = ScramServer(SHA_256, find, SERVER_NONCE)
    challenge = scram.respond(client.first())
    assert isinstance(challenge, Challenge)
    success = scram.respond(client.final(challenge.data))

    assert found == [("token-id", True)]
    assert isinstance(success, Success)
    assert (success.principal, success.expires_ms, success.is_by_token) == (user("owner"), 7, True)


@pytest.mark.parametrize(
    ("first", "complaint"),
    [
        (b"", "not one of SCRAM"),
        (b"n,,", "not one of SCRAM"),
        (b"n,,n=user", "not one of SCRAM"),
        (b"n,,n=,r=abc", "not one of SCRAM"),
        (b"n,,n=user,r=", "not one of SCRAM"),
        (b"n,,r=abc,n=user", "not one of SCRAM"),
        (b"n,user,n=user,r=abc", "not one of SCRAM"),
        (b"p=tls-unique,,n=user,r=abc", "channel binding"),
        (b"n,,m=x,n=user,r=abc", "not one of SCRAM"),
        (b"n,,n=user,r=abc,m=x", "extension"),
        (b"n,,n=user,r=abc,1=x", "extension"),
        (b"n,,n=us=er,r=abc", "not escaped"),
        (b"n,,n=us=2c,r=abc", "not escaped"),
        (b"n,,n=\xff,r=abc", "not UTF-8"),
        (b"n,a=admin,n=user,r=abc", "act for another user"),
        (b"n,a=,n=user,r=abc", "act for another user"),
        (b"n,,n=user,r=" + b"x" * MESSAGE_BYTES_MAX, "bytes, where up to 4096"),
    ],
)
def test_a_first_message_that_no_honest_client_sends_is_refused(first: bytes, complaint: str) -> None:
    assert complaint in failure_of(server().respond(first))


def test_a_client_may_say_that_it_acts_for_itself_or_would_bind_a_channel() -> None:
    for header in (b"n,a=user,", b"y,,"):
        scram = server()
        assert isinstance(scram.respond(header + b"n=user,r=abc"), Challenge)
        # The final message repeats the header: biws is that of "n,,".
        assert "does not fit its first one" in failure_of(
            scram.respond(b"c=biws,r=abc%s,p=AAAA" % SERVER_NONCE.encode())
        )


@pytest.mark.parametrize(
    ("final", "complaint"),
    [
        (b"", "no proof"),
        (FINAL.partition(b",p=")[0], "no proof"),
        (FINAL.replace(b"c=biws,", b""), "not one of SCRAM"),
        (FINAL.replace(b"biws", b"eSws"), "does not fit"),
        # CVE-2024-56128: only the client's half of the nonce, another nonce, a longer one.
        (FINAL.replace(SERVER_NONCE.encode(), b""), "another nonce"),
        (FINAL.replace(b"hvYD", b"hvYE"), "another nonce"),
        (FINAL.replace(b",p=", b"x,p="), "another nonce"),
        (FINAL.replace(b"p=dHz", b"p=eHz"), "unknown user or wrong password"),
        (FINAL.replace(b",p=", b",x=y,p="), "unknown user or wrong password"),
        (FINAL.partition(b",p=")[0] + b",p=AAAA", "wrong length"),
        (FINAL.partition(b",p=")[0] + b",p=", "wrong length"),
        (FINAL.replace(b"p=dHz", b"p=d!z"), "no base64"),
        (FINAL.replace(b"c=", b"c=" + b"A" * MESSAGE_BYTES_MAX), "bytes, where up to 4096"),
    ],
)
def test_a_final_message_without_the_right_proof_is_refused(final: bytes, complaint: str) -> None:
    scram = server()
    scram.respond(FIRST)

    assert complaint in failure_of(scram.respond(final))


@given(st.lists(st.binary(max_size=120) | st.sampled_from([FIRST, FINAL]), max_size=4))
def test_any_other_bytes_are_a_failure_and_never_a_success(messages: list[bytes]) -> None:
    scram = server("nobody-has-this-name")
    for message in messages:
        step = scram.respond(message)
        assert isinstance(step, Challenge | Failure)
        if isinstance(step, Failure):
            break


@given(st.binary(max_size=20), st.integers(0, len(FINAL)), st.integers(0, 20))
def test_a_final_message_that_was_altered_anywhere_is_refused(inserted: bytes, position: int, removed: int) -> None:
    altered = FINAL[:position] + inserted + FINAL[position + removed :]
    scram = server()
    scram.respond(FIRST)

    step = scram.respond(altered)

    assert isinstance(step, Success) is (altered == FINAL)


def test_keys_verify_the_password_and_their_repr_has_none_of_them() -> None:
    keys = keys_of("sha256", b"pencil", b"salty")

    assert is_password("sha256", b"pencil", keys)
    assert not is_password("sha256", b"pen", keys)
    assert repr(keys) == "ScramKeys(iterations=4096)"
    assert isinstance(keys, ScramKeys)
