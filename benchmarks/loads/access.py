"""How the clients of a load get into a broker: as they are, over TLS, with a password, or both."""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

HOST = "localhost"


@dataclass(frozen=True, slots=True)
class Access:
    authority: str = ""
    """The file of the authority to trust; empty without TLS."""
    user: str = ""
    """Of SASL PLAIN; empty without SASL."""
    password: str = ""

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.user else "") + ("SSL" if self.authority else "PLAINTEXT")

    def librdkafka(self) -> Mapping[str, str]:
        settings = {"security.protocol": self.protocol}
        if self.authority:
            settings["ssl.ca.location"] = self.authority
        if self.user:
            settings |= {"sasl.mechanism": "PLAIN", "sasl.username": self.user, "sasl.password": self.password}
        return settings

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)

    def wrap(self, connected: socket.socket) -> socket.socket:
        """With TLS, if there is some. Closes the socket if that fails."""
        if not self.authority:
            return connected
        try:
            return self.context().wrap_socket(connected, server_hostname=HOST)
        except BaseException:
            connected.close()
            raise


OPEN = Access()
