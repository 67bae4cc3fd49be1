"""Delegation tokens, as Kafka makes them: an id, and a password that follows from it and the broker's secret key.

A client authenticates with SCRAM: the id is the user name, the HMAC in Base64 the password, and the extension
`tokenauth=true` says that it is a token.
"""

import base64
import hashlib
import hmac


def token_hmac(secret_key: str, token_id: str) -> bytes:
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def password_of(token: bytes) -> str:
    """The password of a token, given its HMAC."""
    return base64.b64encode(token).decode()


def fingerprint(token: bytes) -> bytes:
    """What is stored of a token's HMAC: a token is found by it, and has no value once the secret key has changed."""
    return hashlib.sha256(token).digest()
