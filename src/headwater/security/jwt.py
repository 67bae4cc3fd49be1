"""JSON Web Tokens (RFC 7519) in their compact, signed form: checked, and never made here.

Law: a token counts only if a public key of the issuer verifies its signature with an algorithm that fits this key
(RFC 8725). `none` and the symmetric algorithms are refused: with those, everybody who may verify could sign.
"""

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from headwater.errors import ErrorCode, HeadwaterError
from headwater.printable import printable
from headwater.security.jwks import ALGORITHMS, KeySet

TOKEN_BYTES_MAX = 32_768
PRINCIPAL_LENGTH_MAX = 1_024
# 31 December 9999: later times cannot be shown, and would overflow further on.
_TIME_MAX_S = 253_402_300_799


class InvalidToken(HeadwaterError):
    """A token that does not count. The message quotes nothing of it that would be secret."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class ValidToken(NamedTuple):
    principal: str
    # When it does not count any more; later than it says itself by what clocks may be apart.
    expires_ms: int
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token must say. Without `issuer` or `audiences`, any is accepted."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_ms: int = 30_000
    principal_claim: str = "sub"
    scope_claim: str = "scope"


def validate(token: str, rules: TokenRules, keys: KeySet, now_ms: int) -> ValidToken:
    """Raises InvalidToken unless the token is signed by one of the keys and follows the rules."""
    if len(token) > TOKEN_BYTES_MAX:
        raise InvalidToken(f"a token of {len(token)} characters, where up to {TOKEN_BYTES_MAX} are read")
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken("the token is not three parts with dots between them")
    header, payload, signature = (_base64url(part) for part in parts)
    _verify(_object(header), token.rpartition(".")[0].encode(), signature, keys)
    return _checked(_object(payload), rules, now_ms)


def _verify(header: Mapping[str, Any], signed: bytes, signature: bytes, keys: KeySet) -> None:
    if "crit" in header:
        raise InvalidToken("the token demands an extension (crit), and none is known")
    name = header.get("alg")
    algorithm = ALGORITHMS.get(name) if isinstance(name, str) else None
    if algorithm is None:
        raise InvalidToken(f"the token is signed with {_shown(name)}; accepted are {', '.join(ALGORITHMS)}")
    key_id = header.get("kid")
    if not (key_id is None or isinstance(key_id, str)):
        raise InvalidToken("the token's key id (kid) is no text")
    candidates = keys.find(key_id, algorithm)
    if not candidates:
        raise UnknownKey(f"no key of the issuer fits the token (kid {_shown(key_id)}, {algorithm.name})")
    if not any(algorithm.is_signature(key, signature, signed) for key in candidates):
        raise InvalidToken("the token's signature is wrong")


class UnknownKey(InvalidToken):
    """The issuer may have changed its keys since they were read."""


def _checked(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> ValidToken:
    skew_ms = rules.clock_skew_ms
    expires_ms = _time(claims, "exp")
    if expires_ms is None:
        raise InvalidToken("the token never expires (exp)")
    if expires_ms + skew_ms <= now_ms:
        raise InvalidToken("the token has expired (exp)")
    if (_time(claims, "nbf") or 0) - skew_ms > now_ms:
        raise InvalidToken("the token is not valid yet (nbf)")
    if (_time(claims, "iat") or 0) - skew_ms > now_ms:
        raise InvalidToken("the token was issued in the future (iat)")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidToken(f"the token is by {_shown(claims.get('iss'))}, not by {_shown(rules.issuer)} (iss)")
    audiences = _texts(claims.get("aud"), "aud")
    if rules.audiences and not set(audiences) & set(rules.audiences):
        raise InvalidToken("the token is for somebody else (aud)")
    principal = claims.get(rules.principal_claim)
    if not isinstance(principal, str) or not 0 < len(principal) <= PRINCIPAL_LENGTH_MAX:
        raise InvalidToken(f"the token does not say who its bearer is ({rules.principal_claim})")
    scopes = claims.get(rules.scope_claim)
    listed = scopes.split() if isinstance(scopes, str) else _texts(scopes, rules.scope_claim)
    return ValidToken(principal, expires_ms + skew_ms, frozenset(listed))


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """A time in ms, rounded down."""
    value = claims.get(name)
    if value is None:
        return None
    # Not isinstance: a bool is an int, too. The comparison also refuses NaN.
    if type(value) not in (int, float) or not 0 <= value <= _TIME_MAX_S:
        raise InvalidToken(f"the token's {name} is not a time")
    return int(value * 1000)


def _texts(value: object, name: str) -> Sequence[str]:
    """A text, or a list of texts."""
    match value:
        case None:
            return ()
        case str():
            return (value,)
        case list():
            texts = cast("list[object]", value)
            if all(isinstance(each, str) for each in texts):
                return cast("list[str]", texts)
        case _:
            pass
    raise InvalidToken(f"the token's {name} is neither a text nor a list of texts")


def _base64url(part: str) -> bytes:
    """Strictly: no padding, no other alphabet, one spelling for the same bytes."""
    try:
        decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise InvalidToken("the token is not Base64url") from None
    if urlsafe_b64encode(decoded).rstrip(b"=").decode() != part:
        raise InvalidToken("the token is not Base64url")
    return decoded


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text.decode(), object_pairs_hook=_pairs)
    except (ValueError, RecursionError):
        raise InvalidToken("the token holds what is no JSON object") from None
    if not isinstance(found, dict):
        raise InvalidToken("the token holds what is no JSON object")
    return cast("dict[str, Any]", found)


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers that each take another one of two equal names would see two different tokens."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidToken("the token says one thing twice")
    return found


def _shown(value: object) -> str:
    return repr(printable(str(value))[:100])
