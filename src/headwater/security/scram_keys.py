"""What a server keeps of a password for SCRAM, and the mechanisms that have such keys.

The computation is in `scram.py`, which loads hashlib and with it OpenSSL: the catalog, which every broker has, needs
only this.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headwater.security.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512

# Kafka's bounds for stored credentials. With fewer iterations, an eavesdropper could guess the password too cheaply.
ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 16_384


class ScramMechanism(NamedTuple):
    name: str
    digest: str
    digest_bytes: int
    # Kafka's number in requests about credentials.
    number: int


MECHANISMS: Mapping[str, ScramMechanism] = {
    SCRAM_SHA_256: ScramMechanism(SCRAM_SHA_256, "sha256", 32, 1),
    SCRAM_SHA_512: ScramMechanism(SCRAM_SHA_512, "sha512", 64, 2),
}
BY_NUMBER: Mapping[int, ScramMechanism] = {each.number: each for each in MECHANISMS.values()}


class ScramKeys(NamedTuple):
    """Enough to verify the password, not enough to log in with."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Leaves out the keys: an attacker can try passwords against them."""
        return f"ScramKeys(iterations={self.iterations})"
