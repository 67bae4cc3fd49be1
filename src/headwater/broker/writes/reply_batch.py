"""Replies that one write or flush makes ready are sent together: a client with several requests in flight gets them
with one system call, and wakes up once."""

import logging
from types import TracebackType
from typing import Protocol

logger = logging.getLogger(__name__)


class Sender(Protocol):
    """A client's connection with replies that are ready."""

    def send_ready(self) -> None: ...


class ReplyBatch:
    """Context manager: connections with replies ready send them when the block exits."""

    __slots__ = ("_senders",)

    def __init__(self) -> None:
        # An ordered set of connections; None outside of the block.
        self._senders: dict[Sender, None] | None = None

    def takes(self, sender: Sender) -> bool:
        """Whether the block sends for this connection when it exits."""
        if self._senders is None:
            return False
        self._senders[sender] = None
        return True

    def __enter__(self) -> None:
        assert self._senders is None, "blocks do not nest"
        self._senders = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        senders, self._senders = self._senders, None
        for sender in senders or ():
            try:
                sender.send_ready()
            except Exception:
                # The other connections must still send: nothing would call them again.
                logger.exception("replies that are ready could not be sent")
