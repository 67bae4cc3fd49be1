"""HOST:PORT as people write it: optionally with Kafka's protocol before it, and IPv6 in brackets."""

import re
from typing import NamedTuple, Self

from headwater.errors import ConfigError

_ENDPOINT = re.compile(
    r"(?:(?P<protocol>[A-Za-z0-9_]+)://)?(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s\[\]:/,@]*)):(?P<port>[0-9]{1,5})"
)
_HOST_LENGTH_MAX = 255
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1")


class Endpoint(NamedTuple):
    """An empty host stands for every address of the machine, and port 0 for any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        found = _ENDPOINT.fullmatch(text.strip())
        if found is None or int(found["port"]) > 65_535 or len(found["host"] or "") > _HOST_LENGTH_MAX:
            raise ConfigError(f"{text[:80]!r} is not of the form HOST:PORT or PLAINTEXT://HOST:PORT")
        if (found["protocol"] or "PLAINTEXT").upper() != "PLAINTEXT":
            raise ConfigError(
                f"{text[:80]!r} asks for {found['protocol']}: give HOST:PORT, and the protocol as security.protocol"
            )
        return cls(found["ipv6"] or found["host"], int(found["port"]))

    @property
    def wildcard(self) -> bool:
        """Whether a server can bind to it but a client cannot connect to it."""
        return self.host in {"", "0.0.0.0", "::"}  # noqa: S104

    @property
    def loopback(self) -> bool:
        """Whether only clients on this machine can connect to it."""
        return _LOOPBACK.fullmatch(self.host) is not None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
