"""One batch on its way into a partition, and the outcome that its producer waits for.

`complete` (or `fail`) is called once, when the acknowledgement rule is met."""

import logging
from collections.abc import Callable
from typing import cast

from headwater.broker.pending import Fault
from headwater.errors import HeadwaterError

logger = logging.getLogger(__name__)

ACKS_ALL = -1


class Append:
    __slots__ = ("_notify", "base_offset", "error", "log_append_time_ms", "log_start_offset", "next_offset")

    def __init__(self, notify: Callable[["Append"], None]) -> None:
        self._notify = notify
        self.base_offset = -1
        self.next_offset = -1
        self.log_append_time_ms = -1
        self.log_start_offset = -1
        # A `Fault` where a bug kept the outcome from coming.
        self.error: HeadwaterError | None = None

    def fail(self, error: HeadwaterError | Fault) -> None:
        self.error = cast("HeadwaterError", error.kept())
        self.base_offset = -1
        self.complete()

    def complete(self) -> None:
        try:
            self._notify(self)
        except Exception:
            # A listener's fault must neither keep the other producers from their outcome nor look like a disk failure.
            logger.exception("an outcome could not be told")
