"""Replies that one write or flush lets go leave together: a client that had several requests under way gets its replies
with one system call, and wakes up once."""

import logging
from types import TracebackType
from typing import Protocol

logger = logging.getLogger(__name__)


class Sender(Protocol):
    """Has replies that are ready: one client's connection."""

    def send_ready(self) -> None: ...


class ReplyBatch:
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
            try:
                sender.send_ready()
            except Exception:
                # Nobody would tell the others again.
                logger.exception("replies that are ready could not be sent")
