"""Replies that one write or flush lets go leave together: a client that had several requests under way gets its replies
with one system call, and wakes up once."""

from types import TracebackType
from typing import Protocol


class Sender(Protocol):
    """Has replies that are ready: one client's connection."""

    def send_ready(self) -> None: ...


class Gathering:
    """Goes on for as long as its block; at the end of it, each sender that came sends all that it then has."""

    __slots__ = ("_senders",)

    def __init__(self) -> None:
        # In the order in which they came, each once; None outside the block.
        self._senders: dict[Sender, None] | None = None

    def takes(self, sender: Sender) -> bool:
        """Whether the sender may wait to be told to send."""
        if self._senders is None:
            return False
        self._senders[sender] = None
        return True

    def __enter__(self) -> None:
        assert self._senders is None, "what one block lets go is sent before the next begins"
        self._senders = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        senders, self._senders = self._senders, None
        for sender in senders or ():
            sender.send_ready()
