"""What a protocol over TCP provides: how its bytes are cut into frames, and what answers them."""

from typing import TYPE_CHECKING, Protocol

from headwater.config.broker import BrokerConfig

if TYPE_CHECKING:
    from headwater.listeners.tcp.connection import Slot


class Frames(Protocol):
    """Cuts the bytes of a connection into frames. `protocol/wire/framing.py` has Kafka's."""

    @property
    def partial_bytes(self) -> int:
        """Bytes of a frame that has begun but is not whole yet."""
        ...

    @property
    def frame_count(self) -> int:
        """How many whole frames there have been."""
        ...

    def space(self) -> memoryview | None:
        """Where the next bytes go; None while there is no memory for them. Frames are valid until the next call."""
        ...

    def received(self, count: int) -> None: ...

    def next_frame(self) -> memoryview | None: ...

    def relax(self) -> None:
        """Give memory back: the connection has been quiet for a while."""
        ...

    def close(self) -> None: ...


class Conversation(Protocol):
    """The protocol's state of one client: it answers the client's frames."""

    @property
    def frames(self) -> Frames: ...

    @property
    def requests_max(self) -> int:
        """How many requests it handles at once."""
        ...

    def serve(self, frame: memoryview, slot: "Slot") -> None:
        """Fill the slot, now or later. A ProtocolError ends the connection."""
        ...

    def use_config(self, config: BrokerConfig) -> None: ...

    def end(self) -> None:
        """The connection has closed."""
        ...
