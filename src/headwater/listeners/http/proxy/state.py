"""What the REST proxy keeps between requests: the consumers of its clients, and codecs of schemas."""

from typing import TYPE_CHECKING

from headwater.listeners.http.proxy.consumers.registry import Consumers
from headwater.listeners.http.proxy.payload_codecs import PayloadCodecs

if TYPE_CHECKING:
    from headwater.listeners.http.services import HttpServices


class ProxyState:
    def __init__(self, services: "HttpServices") -> None:
        self.codecs = PayloadCodecs()
        self.consumers = Consumers(services)
