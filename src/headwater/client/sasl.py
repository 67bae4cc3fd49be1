"""Who we are to a broker: a name and a password, and the exchange of the mechanism that proves it.

Law: the password appears in no error, log or representation.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.client.errors import AuthenticationFailed
from headwater.client.scram import ScramExchange, ScramFailed

PLAIN = "PLAIN"
_SCRAM_DIGESTS: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = (PLAIN, *_SCRAM_DIGESTS)

# Enough that no two exchanges share one; printable, and without the comma that separates attributes.
_NONCE_BYTES = 24

# Sends bytes of the mechanism and gives the broker's.
Exchange = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Credentials:
    mechanism: str
    username: str
    password: str = field(repr=False)

    def authenticate(self, exchange: Exchange) -> None:
        if self.mechanism == PLAIN:
            exchange(b"\0".join((b"", self.username.encode(), self.password.encode())))
            return
        scram = ScramExchange(
            _SCRAM_DIGESTS[self.mechanism], self.username, self.password, secrets.token_urlsafe(_NONCE_BYTES)
        )
        try:
            scram.verify(exchange(scram.final(exchange(scram.first()))))
        except ScramFailed as failure:
            raise AuthenticationFailed(str(failure)) from None
