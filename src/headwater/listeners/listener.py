"""The port that every listener implements. `node.py` starts listeners in order and stops them in reverse order."""

from typing import Protocol

from headwater.endpoint import Endpoint


class Listener(Protocol):
    @property
    def name(self) -> str:
        """As settings and the ready line name it: `kafka`, or `kafka.INTERNAL` for a second one."""
        ...

    @property
    def endpoint(self) -> Endpoint:
        """The bound address, with the port that the system chose if the settings say 0."""
        ...

    def start(self) -> None:
        """Bind and begin to accept. An address in use is an OSError that names it."""
        ...

    def stop_accepting(self) -> None:
        """Take no more clients and no more requests; answer the requests under way."""
        ...

    async def stop(self, timeout_ms: int) -> None:
        """Wait for the requests under way, at most `timeout_ms`, then close every connection."""
        ...
