"""The public keys of an issuer of tokens (JWKS, RFC 7517), and the algorithms that may verify with them (RFC 7518).

Law: a key is used only with the algorithms of its own kind and curve. Keys of other kinds are skipped.
"""

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

KEYS_MAX = 100
# How many keys are tried for a token that does not name its key.
CANDIDATES_MAX = 8
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192
_RSA_EXPONENT_MAX = 2**32 - 1
_COORDINATE_BYTES_MAX = 66


class Key(NamedTuple):
    id: str | None
    # RSA, or the name of a curve.
    kind: str
    # The one algorithm that the issuer uses it for, if it says so.
    algorithm: str | None
    public: Any


class Algorithm(NamedTuple):
    name: str
    kind: str
    # Whether `public` signed the text with that signature.
    verify: Callable[[Any, bytes, bytes], None]

    def is_signature(self, key: Key, signature: bytes, signed: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  late import: see `parse`

        try:
            self.verify(key.public, signature, signed)
        except InvalidSignature:
            return False
        return True


class KeySet:
    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys = keys

    def find(self, key_id: str | None, algorithm: Algorithm) -> Sequence[Key]:
        """The keys that may verify a token with that key id and algorithm."""
        found = [
            key
            for key in self.keys
            if key.kind == algorithm.kind
            and key.algorithm in (None, algorithm.name)
            and (key_id is None or key.id == key_id)
        ]
        return found[:CANDIDATES_MAX]


def parse(content: bytes) -> KeySet:
    """Read a JWKS document. Raises ConfigError for one that has no key to verify tokens with."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ConfigError("the JWKS is not JSON") from None
    listed = cast("dict[str, Any]", document).get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ConfigError('the JWKS has no list "keys"')
    entries = cast("list[object]", listed)
    if len(entries) > KEYS_MAX:
        raise ConfigError(f"the JWKS has {len(entries)} keys, more than {KEYS_MAX}")
    keys = [key for key in map(_key, entries) if key is not None]
    if not keys:
        raise ConfigError(
            f"the JWKS has no key to verify tokens with (RSA of {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, "
            f"{', '.join(_CURVES)}, Ed25519)"
        )
    return KeySet(keys)


def _key(entry: object) -> Key | None:
    if not isinstance(entry, dict):
        return None
    found = cast("dict[str, Any]", entry)
    key_id, algorithm = found.get("kid"), found.get("alg")
    if not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        return None
    try:
        if found.get("use") not in (None, "sig") or "verify" not in found.get("key_ops", ("verify",)):
            return None
        kind, public = _public_key(found)
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return Key(key_id, kind, algorithm, public)


def _public_key(found: Mapping[str, Any]) -> tuple[str, Any]:
    """The kind of a key, and the key. Raises an error of many kinds for one that is not usable."""
    # Late import: OpenSSL costs 10 MB, which only a broker that accepts tokens needs.
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415

    match found["kty"]:
        case "RSA":
            modulus, exponent = _number(found["n"], RSA_BITS_MAX // 8), _number(found["e"], 8)
            if not RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX or not 3 <= exponent <= _RSA_EXPONENT_MAX:
                raise ValueError
            return RSA, rsa.RSAPublicNumbers(exponent, modulus).public_key()
        case "EC":
            curve: str = found["crv"]
            x, y = (_number(found[each], _COORDINATE_BYTES_MAX) for each in ("x", "y"))
            # Refuses a point that is not on the curve.
            return curve, ec.EllipticCurvePublicNumbers(x, y, getattr(ec, _CURVES[curve])()).public_key()
        case "OKP" if found["crv"] == ED25519:
            return ED25519, ed25519.Ed25519PublicKey.from_public_bytes(_bytes(found["x"], 32))
        case _:
            raise ValueError


def _number(text: object, bytes_max: int) -> int:
    return int.from_bytes(_bytes(text, bytes_max), "big")


def _bytes(text: object, bytes_max: int) -> bytes:
    # One more, for the zero that some issuers put in front.
    if not isinstance(text, str) or len(text) > (bytes_max + 1) * 4 // 3 + 3:
        raise ValueError
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


# -- algorithms

RSA: Final = "RSA"
ED25519: Final = "Ed25519"
# The names of the curves in JWKS, and in `cryptography`.
_CURVES: Final = {"P-256": "SECP256R1", "P-384": "SECP384R1", "P-521": "SECP521R1"}


def _rsa(name: str, bits: int, *, is_pss: bool) -> Algorithm:
    def verify(public: "rsa.RSAPublicKey", signature: bytes, signed: bytes) -> None:
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

        digest = getattr(hashes, f"SHA{bits}")()
        scheme: padding.AsymmetricPadding = padding.PKCS1v15()
        if is_pss:
            scheme = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
        public.verify(signature, signed, scheme, digest)

    return Algorithm(name, RSA, verify)


def _elliptic(name: str, curve: str, bits: int, coordinate_bytes: int) -> Algorithm:
    def verify(public: "ec.EllipticCurvePublicKey", signature: bytes, signed: bytes) -> None:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec, utils  # noqa: PLC0415

        # Two numbers of a fixed length, where OpenSSL wants them in ASN.1.
        if len(signature) != 2 * coordinate_bytes:
            raise InvalidSignature
        halves = signature[:coordinate_bytes], signature[coordinate_bytes:]
        encoded = utils.encode_dss_signature(*(int.from_bytes(half, "big") for half in halves))
        public.verify(encoded, signed, ec.ECDSA(getattr(hashes, f"SHA{bits}")()))

    return Algorithm(name, curve, verify)


def _edwards() -> Algorithm:
    def verify(public: "ed25519.Ed25519PublicKey", signature: bytes, signed: bytes) -> None:
        public.verify(signature, signed)

    return Algorithm("EdDSA", ED25519, verify)


ALGORITHMS: Mapping[str, Algorithm] = {
    each.name: each
    for each in (
        *(_rsa(f"RS{bits}", bits, is_pss=False) for bits in (256, 384, 512)),
        *(_rsa(f"PS{bits}", bits, is_pss=True) for bits in (256, 384, 512)),
        _elliptic("ES256", "P-256", 256, 32),
        _elliptic("ES384", "P-384", 384, 48),
        _elliptic("ES512", "P-521", 512, 66),
        _edwards(),
    )
}
