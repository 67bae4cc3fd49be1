"""An issuer of JSON Web Tokens: its keys, their JWKS, and tokens that it signs, also wrong ones."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

NOW_S = 1_700_000_000
CURVES: Mapping[str, tuple[str, ec.EllipticCurve, int]] = {
    "ES256": ("P-256", ec.SECP256R1(), 32),
    "ES384": ("P-384", ec.SECP384R1(), 48),
    "ES512": ("P-521", ec.SECP521R1(), 66),
}
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *CURVES, "EdDSA")


def base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def json_part(value: object) -> str:
    return base64url(json.dumps(value).encode())


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    """Shared by all tests: it takes a tenth of a second to make one."""
    return rsa.generate_private_key(65537, bits)


class Issuer:
    """Has one key for each algorithm, under the algorithm's name as its id."""

    def __init__(self) -> None:
        self._rsa = rsa_key()
        self._edwards = ed25519.Ed25519PrivateKey.generate()
        self._elliptic = {name: ec.generate_private_key(curve) for name, (_, curve, _) in CURVES.items()}

    def jwk(self, algorithm: str) -> dict[str, Any]:
        if algorithm in CURVES:
            name, _, size = CURVES[algorithm]
            point = self._elliptic[algorithm].public_key().public_numbers()
            x, y = (base64url(each.to_bytes(size, "big")) for each in (point.x, point.y))
            return {"kid": algorithm, "kty": "EC", "crv": name, "x": x, "y": y}
        if algorithm == "EdDSA":
            x = base64url(self._edwards.public_key().public_bytes_raw())
            return {"kid": algorithm, "kty": "OKP", "crv": "Ed25519", "x": x}
        return {"kid": algorithm, "alg": algorithm, **rsa_jwk(self._rsa)}

    def jwks(self, *algorithms: str) -> bytes:
        return json.dumps({"keys": [self.jwk(each) for each in algorithms or ALGORITHMS]}).encode()

    def token(self, claims: Mapping[str, Any], algorithm: str = "RS256", **header: Any) -> str:
        return self.signed(json_part({"alg": algorithm, "kid": algorithm, **header}), json_part(claims), algorithm)

    def signed(self, header: str, payload: str, algorithm: str = "RS256") -> str:
        text = f"{header}.{payload}"
        return f"{text}.{base64url(self.signature(text.encode(), algorithm))}"

    def signature(self, text: bytes, algorithm: str) -> bytes:
        if algorithm == "EdDSA":
            return self._edwards.sign(text)
        digest: hashes.HashAlgorithm = getattr(hashes, f"SHA{algorithm[2:]}")()
        if algorithm in CURVES:
            encoded = self._elliptic[algorithm].sign(text, ec.ECDSA(digest))
            size = CURVES[algorithm][2]
            return b"".join(each.to_bytes(size, "big") for each in utils.decode_dss_signature(encoded))
        if algorithm.startswith("PS"):
            return self._rsa.sign(text, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
        return self._rsa.sign(text, padding.PKCS1v15(), digest)


def rsa_jwk(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    numbers = key.public_key().public_numbers()
    modulus, exponent = (
        base64url(each.to_bytes((each.bit_length() + 7) // 8, "big")) for each in (numbers.n, numbers.e)
    )
    return {"kty": "RSA", "n": modulus, "e": exponent}


def claims(now_s: int = NOW_S, **others: Any) -> dict[str, Any]:
    """Those of a good token for ann; None leaves one out."""
    found = {"sub": "ann", "iss": "https://issuer", "aud": "headwater", "iat": now_s, "exp": now_s + 300, **others}
    return {name: value for name, value in found.items() if value is not None}
