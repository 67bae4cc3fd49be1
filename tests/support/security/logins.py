"""How a client of a secured broker logs in, and the settings that each client library wants for it."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER)
SSL, SASL_SSL, SASL_PLAINTEXT = "SSL", "SASL_SSL", "SASL_PLAINTEXT"
# Every way to authenticate: the listener, and the mechanism if it has some.
WAYS = ((SSL, ""), *((listener, each) for listener in (SASL_SSL, SASL_PLAINTEXT) for each in MECHANISMS))


@dataclass(frozen=True, slots=True)
class Login:
    bootstrap_servers: str
    protocol: str
    # The authority that the client trusts.
    authority: Path
    mechanism: str = ""
    user: str = ""
    password: str = ""
    # Makes a JSON Web Token.
    token: Callable[[], str] | None = None
    certificate: Path | None = None

    def but(self, **changes: Any) -> Self:
        return replace(self, **changes)

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    def context(self, *, ciphers: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if ciphers is not None:
            context.set_ciphers(ciphers)
        # Python's default, which a client may drop: old authorities do not follow all of RFC 5280.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.certificate is not None:
            context.load_cert_chain(self.certificate)
        return context

    def properties(self) -> dict[str, str]:
        """As librdkafka and our own client name them. OAUTHBEARER needs a callback beside."""
        found = {"security.protocol": self.protocol}
        if self.is_encrypted:
            found["ssl.ca.location"] = str(self.authority)
            if self.certificate is not None:
                found |= {"ssl.certificate.location": str(self.certificate), "ssl.key.location": str(self.certificate)}
        if self.is_sasl:
            found["sasl.mechanism"] = self.mechanism
            if self.token is None:
                found |= {"sasl.username": self.user, "sasl.password": self.password}
        return found
