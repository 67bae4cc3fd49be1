"""SCRAM: the example exchanges of the RFCs, and dishonest servers."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.security.scram import CLIENT_ITERATIONS_MAX, ScramClient, ScramFailed

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={SERVER_NONCE},s={SALT},i=4096".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(username: str = "user", password: str = "pencil") -> ScramClient:
    return ScramClient("sha256", username, password, NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    scram = exchange()

    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.final(SERVER_FIRST) == (
        f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    scram.verify(SERVER_FINAL)


def test_the_exchange_of_rfc_5802() -> None:
    scram = ScramClient("sha1", "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL")
    server_nonce = b"fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"

    assert scram.first() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    final = scram.final(b"r=%s,s=QSXCR+Q6sek8bf92,i=4096" % server_nonce)
    assert final == b"c=biws,r=%s,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=" % server_nonce
    scram.verify(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")


def test_separator_characters_in_names_are_escaped() -> None:
    assert exchange("a=b,c").first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize(
    ("server_first", "complaint"),
    [
        (b"", "not one of SCRAM"),
        (b"r=" + SERVER_NONCE.encode(), "not one of SCRAM"),
        (b"m=new," + SERVER_FIRST, "not one of SCRAM"),
        (SERVER_FIRST.replace(b"r=r", b"r=R"), "does not extend ours"),
        (SERVER_FIRST.replace(SERVER_NONCE.encode(), NONCE.encode()), "does not extend ours"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"4096", str(CLIENT_ITERATIONS_MAX + 1).encode()), "1000001 iterations"),
        (SERVER_FIRST.replace(b"4096", b"9" * 4000), "a number of iterations that is none"),
        (SERVER_FIRST.replace(b"4096", b"-4096"), "a number of iterations that is none"),
        (SERVER_FIRST.replace(b"4096", "٤٠٩٦".encode()), "a number of iterations that is none"),
        (SERVER_FIRST.replace(b"4096", b""), "not one of SCRAM"),
        (SERVER_FIRST.replace(b"W22", b"W2!"), "no base64"),
        (SERVER_FIRST + b",x=" + b"y" * 5000, "bytes, where up to 4096"),
    ],
)
def test_a_challenge_that_no_honest_server_sends_is_refused(server_first: bytes, complaint: str) -> None:
    with pytest.raises(ScramFailed, match=complaint):
        exchange().final(server_first)


@pytest.mark.parametrize(
    ("server_final", "complaint"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "could not prove"),
        (b"v=", "could not prove"),
        (b"x=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "could not prove"),
        (b"v=*", "no base64"),
        (b"", "not one of SCRAM"),
        (b"e=invalid-proof", "invalid-proof"),
        (b"e=\x1b[2J" + b"!" * 1000, r"the server says '\\\\x1b\[2J!{190}"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_not_trusted(server_final: bytes, complaint: str) -> None:
    scram = exchange()
    scram.final(SERVER_FIRST)
    with pytest.raises(ScramFailed, match=complaint):
        scram.verify(server_final)


def test_a_server_that_knows_another_password_is_not_trusted() -> None:
    scram = exchange(password="pen")
    scram.final(SERVER_FIRST)
    with pytest.raises(ScramFailed, match="could not prove"):
        scram.verify(SERVER_FINAL)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_one_clear_error(message: bytes) -> None:
    with pytest.raises(ScramFailed):
        exchange().final(message)
