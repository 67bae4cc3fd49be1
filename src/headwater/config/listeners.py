"""Listeners as Kafka's settings write them: a name, its security protocol, an address to bind, and an advertised
address.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from headwater.endpoint import Endpoint
from headwater.errors import ConfigError

DEFAULT_NAME = "PLAINTEXT"
HTTP_NAME, HTTPS_NAME = "HTTP", "HTTPS"
BASIC, BEARER = HTTP_SCHEMES = ("basic", "bearer")
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<address>.*)")
_NAME = re.compile(r"[A-Z0-9_.-]+")
_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


class SecurityProtocol(Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def is_sasl(self) -> bool:
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class ListenerAddress(NamedTuple):
    name: str
    protocol: SecurityProtocol
    bound: Endpoint
    # The address that responses tell clients to connect to; None for the bound address.
    advertised: Endpoint | None


def parse_addresses(text: str, default_name: str = DEFAULT_NAME) -> Mapping[str, Endpoint]:
    """Addresses by the name of their listener, in the order of the text."""
    addresses: dict[str, Endpoint] = {}
    for part in text.split(","):
        named = _NAMED.fullmatch(part.strip())
        name = named["name"].upper() if named is not None else default_name
        if name in addresses:
            raise ConfigError(f"listener {name} is named twice; each has a name of its own, as in INTERNAL://HOST:PORT")
        addresses[name] = Endpoint.parse(named["address"] if named is not None else part)
    return addresses


def parse_http_addresses(text: str) -> Mapping[str, Endpoint]:
    return parse_addresses(text, HTTP_NAME)


def check_origin(text: str) -> None:
    if not _ORIGIN.fullmatch(text):
        raise ConfigError(f"{text[:80]!r} is not an origin: https://HOST or https://HOST:PORT, in small letters")


def parse_protocols(text: str) -> Mapping[str, SecurityProtocol]:
    """The security protocol of each listener name."""
    protocols: dict[str, SecurityProtocol] = {}
    for part in text.split(","):
        name, separator, protocol = (piece.strip().upper() for piece in part.partition(":"))
        if not separator or not _NAME.fullmatch(name):
            raise ConfigError(f"{part[:80]!r} is not of the form NAME:PROTOCOL")
        if protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(f"{part[:80]!r} asks for the protocol {protocol[:40]!r}; there are {known}")
        if name in protocols:
            raise ConfigError(f"listener {name} is given a protocol twice")
        protocols[name] = SecurityProtocol[protocol]
    return protocols


def listener_addresses(listeners: str, advertised: str | None, protocol_map: str) -> Sequence[ListenerAddress]:
    """The listeners of a broker. Raises ConfigError if the three settings contradict each other."""
    bound = parse_addresses(listeners)
    advertised_by_name: Mapping[str, Endpoint] = {} if advertised is None else parse_addresses(advertised)
    protocols = parse_protocols(protocol_map)
    unknown = advertised_by_name.keys() - bound.keys()
    if unknown:
        raise ConfigError(f"advertised.listeners: there is no listener {min(unknown)} (listeners)")
    found = [_listener(name, endpoint, advertised_by_name.get(name), protocols) for name, endpoint in bound.items()]
    _check_ports(found)
    return found


def http_addresses(
    listeners: str, protocol_map: str, has_authentication: Callable[[str], bool]
) -> Sequence[ListenerAddress]:
    """The listeners that serve HTTP."""
    protocols = {
        HTTP_NAME: SecurityProtocol.PLAINTEXT,
        HTTPS_NAME: SecurityProtocol.SSL,
        **parse_protocols(protocol_map),
    }
    found: list[ListenerAddress] = []
    for name, endpoint in parse_http_addresses(listeners).items():
        protocol = protocols.get(name)
        if protocol is None or protocol.is_sasl:
            raise ConfigError(
                f"headwater.http.listeners: {name} needs the protocol PLAINTEXT or SSL in "
                "listener.security.protocol.map; how its clients authenticate is headwater.http.authentication"
            )
        if has_authentication(name):
            protocol = SecurityProtocol.SASL_SSL if protocol.is_encrypted else SecurityProtocol.SASL_PLAINTEXT
        found.append(ListenerAddress(name, protocol, endpoint, None))
    _check_ports(found)
    return found


def check_inter_broker(listeners: Sequence[ListenerAddress], name: str | None, protocol: str | None) -> None:
    """As in Kafka, either the name or the protocol picks the listener for other brokers, and it must be there."""
    if name is not None and protocol is not None:
        raise ConfigError("inter.broker.listener.name and security.inter.broker.protocol: only one of them can be set")
    wanted = name or protocol
    if wanted is not None and wanted.upper() not in {each.name for each in listeners}:
        setting = "inter.broker.listener.name" if name is not None else "security.inter.broker.protocol"
        raise ConfigError(f"{setting}: there is no listener {wanted} (listeners)")


def _listener(
    name: str, bound: Endpoint, advertised: Endpoint | None, protocols: Mapping[str, SecurityProtocol]
) -> ListenerAddress:
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(f"listeners: {name} has no protocol in listener.security.protocol.map")
    if advertised is None and bound.wildcard:
        raise ConfigError(
            f"listeners: clients cannot connect to {bound}; set advertised.listeners to an address that they can reach"
        )
    if advertised is not None and (advertised.wildcard or not advertised.port):
        raise ConfigError(f"advertised.listeners: clients cannot connect to {advertised}")
    return ListenerAddress(name, protocol, bound, advertised)


def _check_ports(listeners: Sequence[ListenerAddress]) -> None:
    """As in Kafka, each listener has a port of its own, but an IPv4 and an IPv6 address may share one."""
    by_port: dict[int, ListenerAddress] = {}
    for each in listeners:
        other = by_port.setdefault(each.bound.port, each)
        if each.bound.port and other is not each and (":" in other.bound.host) == (":" in each.bound.host):
            raise ConfigError(f"listeners: {other.name} and {each.name} have the same port {each.bound.port}")
