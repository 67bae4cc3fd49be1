"""JSON Web Tokens: which count, and everything that must not."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigError
from headwater.security.jwks import KEYS_MAX, RSA_BITS_MAX, parse
from headwater.security.jwt import TOKEN_BYTES_MAX, InvalidToken, TokenRules, UnknownKey, ValidToken, validate
from tests.support.security.tokens import ALGORITHMS, NOW_S, Issuer, base64url, claims, json_part, rsa_jwk, rsa_key

ISSUER, STRANGER = Issuer(), Issuer()
KEYS = parse(ISSUER.jwks())
RULES = TokenRules(issuer="https://issuer", audiences=("headwater", "other"), clock_skew_ms=10_000)
NOW_MS = NOW_S * 1000


def read(token: str, rules: TokenRules = RULES) -> ValidToken:
    return validate(token, rules, KEYS, NOW_MS)


def read_claims(rules: TokenRules = RULES, **others: Any) -> ValidToken:
    return read(ISSUER.token(claims(**others)), rules)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_of_each_algorithm_is_verified(algorithm: str) -> None:
    token = ISSUER.token(claims(), algorithm)

    assert read(token) == ValidToken("ann", (NOW_S + 310) * 1000, frozenset())
    for changed in (token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1], STRANGER_TOKENS[algorithm]):
        with pytest.raises(InvalidToken, match="signature is wrong"):
            read(changed)


# The strangers' RSA key is the same: a key takes long to make.
STRANGER_TOKENS = {
    each: (
        STRANGER.token(claims(), each)
        if each.startswith("E")
        else ISSUER.token(claims(), each).rpartition(".")[0] + "." + base64url(bytes(256))
    )
    for each in ALGORITHMS
}


def test_a_token_without_key_id_is_verified_by_the_keys_that_fit() -> None:
    assert read(ISSUER.token(claims(), "ES256", kid=None)).principal == "ann"


@pytest.mark.parametrize(
    ("algorithm", "complaint"),
    [("none", "signed with 'none'"), ("None", "signed with 'None'"), ("HS256", "signed with 'HS256'"), ("", "''")],
)
def test_unsigned_and_symmetric_tokens_are_refused(algorithm: str, complaint: str) -> None:
    signed = f"{json_part({'alg': algorithm, 'kid': 'RS256'})}.{json_part(claims())}"
    # The public key as a shared secret: what a verifier that trusts the header would accept.
    secret = json.dumps(ISSUER.jwk("RS256")).encode()
    for signature in (b"", hmac.digest(secret, signed.encode(), hashlib.sha256)):
        with pytest.raises(InvalidToken, match=complaint):
            read(f"{signed}.{base64url(signature)}")


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ({"alg": ["RS256"]}, "signed with"),
        ({"alg": None}, "signed with 'None'"),
        ({"kid": 7}, "key id"),
        ({"crit": ["exp"]}, "crit"),
        ({"kid": "other"}, "no key of the issuer"),
        # A key of one kind and an algorithm of another.
        ({"kid": "ES256"}, "no key of the issuer"),
        # The JWKS says that the key is for RS256 alone.
        ({"alg": "PS256", "kid": "RS256"}, "no key of the issuer"),
    ],
)
def test_a_wrong_header_is_refused(header: dict[str, Any], complaint: str) -> None:
    token = ISSUER.signed(json_part({"alg": "RS256", "kid": "RS256", **header}), json_part(claims()))
    with pytest.raises(InvalidToken, match=complaint):
        read(token)


def test_an_unknown_key_is_told_apart_because_new_keys_may_be_there() -> None:
    with pytest.raises(UnknownKey):
        read(ISSUER.token(claims(), kid="new"))


@pytest.mark.parametrize(
    ("others", "complaint"),
    [
        ({"exp": None}, "never expires"),
        ({"exp": NOW_S - 10}, "has expired"),
        ({"exp": str(NOW_S + 100)}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": float("nan")}, "exp is not a time"),
        ({"exp": float("inf")}, "exp is not a time"),
        ({"exp": 10**400}, "exp is not a time"),
        ({"exp": -1}, "exp is not a time"),
        ({"nbf": NOW_S + 11}, "not valid yet"),
        ({"iat": NOW_S + 11}, "in the future"),
        ({"iss": "https://elsewhere"}, "by 'https://elsewhere', not by 'https://issuer'"),
        ({"iss": None}, "not by"),
        ({"iss": ["https://issuer"]}, "not by"),
        ({"aud": "stranger"}, "somebody else"),
        ({"aud": None}, "somebody else"),
        ({"aud": ["stranger"]}, "somebody else"),
        ({"aud": ["headwater", 1]}, "neither a text nor"),
        ({"aud": {"headwater": 1}}, "neither a text nor"),
        ({"sub": None}, "who its bearer is"),
        ({"sub": ""}, "who its bearer is"),
        ({"sub": ["ann"]}, "who its bearer is"),
        ({"sub": "x" * 1025}, "who its bearer is"),
        ({"scope": 1}, "neither a text nor"),
    ],
)
def test_a_wrong_claim_is_refused(others: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidToken, match=complaint):
        read_claims(**others)


def test_clocks_may_differ_by_the_skew() -> None:
    assert read_claims(exp=NOW_S - 9, nbf=NOW_S + 10, iat=NOW_S + 10).principal == "ann"


def test_any_of_several_audiences_is_enough() -> None:
    assert read_claims(aud=["stranger", "other"]).principal == "ann"


def test_without_rules_any_issuer_and_audience_will_do() -> None:
    assert read_claims(TokenRules(), iss=None, aud=None).principal == "ann"


def test_principal_and_scopes_come_from_the_claims_that_are_set() -> None:
    rules = TokenRules(principal_claim="client_id", scope_claim="scp")

    assert read_claims(rules, client_id="app", scp=["read", "write"]).scopes == {"read", "write"}
    assert read_claims(rules, client_id="app", scp="read write").principal == "app"


@pytest.mark.parametrize(
    ("token", "complaint"),
    [
        ("", "three parts"),
        ("a.b", "three parts"),
        ("a.b.c.d", "three parts"),
        ("!.b.c", "not Base64url"),
        (f"{json_part({})}=.{json_part({})}.", "not Base64url"),
        (f"{json_part({})[:-1]}x.{json_part({})}.", "not Base64url"),
        ("a" * (TOKEN_BYTES_MAX + 1), "where up to"),
        (f"{base64url(b'[]')}.e30.", "no JSON object"),
        (f"{base64url(b'{')}.e30.", "no JSON object"),
        (f"{base64url(bytes([255]))}.e30.", "no JSON object"),
        (f"{base64url(b'[' * 20_000)}.e30.", "no JSON object"),
        (f"{base64url(b'1' * 20_000)}.e30.", "no JSON object"),
        (base64url(b'{"alg":"none","alg":"RS256"}') + ".e30.", "one thing twice"),
        ("é.e30.e30", "not Base64url"),
    ],
)
def test_what_is_no_token_is_refused(token: str, complaint: str) -> None:
    with pytest.raises(InvalidToken, match=complaint):
        read(token)


def test_a_signed_token_that_says_one_thing_twice_is_refused() -> None:
    payload = json.dumps(claims())[:-1] + ', "sub": "admin"}'
    token = ISSUER.signed(json_part({"alg": "RS256", "kid": "RS256"}), base64url(payload.encode()))
    with pytest.raises(InvalidToken, match="one thing twice"):
        read(token)


@given(st.text(max_size=80) | st.lists(st.binary(max_size=60).map(base64url), min_size=3, max_size=3).map(".".join))
def test_any_other_text_is_one_clear_error(token: str) -> None:
    with pytest.raises(InvalidToken):
        read(token)


GOOD = ISSUER.token(claims(), "ES256")


@given(st.integers(0, len(GOOD)), st.text("abcXYZ019-_.", max_size=4), st.integers(0, 4))
def test_a_token_that_was_altered_anywhere_is_refused(position: int, inserted: str, removed: int) -> None:
    altered = GOOD[:position] + inserted + GOOD[position + removed :]
    if altered != GOOD:
        with pytest.raises(InvalidToken):
            read(altered)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["sub", "iss", "aud", "exp", "nbf", "iat", "scope"]), JSON))
def test_signed_claims_of_any_types_are_a_valid_token_or_one_clear_error(others: dict[str, Any]) -> None:
    try:
        valid = read(ISSUER.token({**claims(), **others}, "EdDSA"))
    except InvalidToken:
        return
    assert valid.expires_ms > NOW_MS


# -- keys


def jwks(*keys: object) -> bytes:
    return json.dumps({"keys": keys}).encode()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", 'no list "keys"'),
        (b'{"keys": {}}', 'no list "keys"'),
        (jwks(), "no key to verify"),
        (jwks(*[{}] * (KEYS_MAX + 1)), "more than 100"),
    ],
)
def test_a_document_without_keys_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse(content)


@pytest.mark.parametrize(
    "key",
    [
        None,
        {"kty": "oct", "k": "c2VjcmV0"},
        rsa_jwk(rsa_key(1024)),
        {**ISSUER.jwk("RS256"), "e": base64url(b"\1")},
        {**ISSUER.jwk("RS256"), "n": base64url(bytes([255]) * (RSA_BITS_MAX // 8 + 1))},
        {**ISSUER.jwk("RS256"), "n": 7},
        {**ISSUER.jwk("RS256"), "use": "enc"},
        {**ISSUER.jwk("RS256"), "key_ops": ["sign"]},
        {**ISSUER.jwk("RS256"), "key_ops": 7},
        {**ISSUER.jwk("RS256"), "use": {}},
        {**ISSUER.jwk("RS256"), "kid": 7},
        {**ISSUER.jwk("ES256"), "x": base64url(bytes(32))},
        {**ISSUER.jwk("ES256"), "crv": "secp256k1"},
        {**ISSUER.jwk("EdDSA"), "crv": "X25519"},
        {**ISSUER.jwk("EdDSA"), "x": base64url(bytes(31))},
    ],
)
def test_a_key_that_cannot_verify_is_skipped(key: object) -> None:
    good = ISSUER.jwk("ES384")

    assert [each.id for each in parse(jwks(key, good)).keys] == ["ES384"]


@given(st.lists(JSON, max_size=3))
def test_keys_of_any_form_are_skipped(keys: list[object]) -> None:
    with pytest.raises(ConfigError, match="no key to verify"):
        parse(jwks(*keys))
