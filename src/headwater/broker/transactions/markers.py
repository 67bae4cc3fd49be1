"""The markers of one decision, written again and again until each is on disk.

They are staged in the instant of the start, so that those that need no flush are written in the same loop turn; a
partition that has trouble keeps no other waiting.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from headwater.broker.pending import Pending
from headwater.coordination.transactions.commands import WriteMarkers
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicPartition

logger = logging.getLogger(__name__)

# The partition is gone, or another marker has already ended the transaction there.
_NEEDLESS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH})

Write = Callable[[WriteMarkers, TopicPartition], Pending[HeadwaterError | None]]


class MarkerWriter:
    def __init__(
        self,
        markers: WriteMarkers,
        write: Write,
        done: Callable[[WriteMarkers], None],
        *,
        pause_s: float,
        pause_s_max: float,
    ) -> None:
        """What could not be written is tried again after a pause, and after ever longer ones."""
        self._markers = markers
        self._write = write
        self._done = done
        self._pause_s = pause_s
        self._pause_s_max = pause_s_max
        self._missing: list[TopicPartition] = []
        self._outstanding = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_cancelled = False

    def start(self) -> None:
        self._try(tuple(self._markers.partitions))

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _try(self, partitions: Sequence[TopicPartition]) -> None:
        self._timer = None
        self._missing = []
        self._outstanding = len(partitions) + 1
        for where in partitions:
            self._begin(where)
        self._settle()

    def _begin(self, where: TopicPartition) -> None:
        try:
            written = self._write(self._markers, where)
        except Exception as error:
            # Whatever it is, the others must get theirs, and a transaction that is decided must not stay open.
            logger.exception("a marker of %r cannot be written to %s", self._markers.transactional_id, where)
            self._settle(where, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        else:
            written.then(lambda error: self._settle(where, error))

    def _settle(self, where: TopicPartition | None = None, error: HeadwaterError | None = None) -> None:
        if where is not None and error is not None and error.code not in _NEEDLESS:
            self._missing.append(where)
        self._outstanding -= 1
        if self._outstanding or self._is_cancelled:
            return
        if not self._missing:
            self._done(self._markers)
            return
        logger.warning("markers of %r are missing in %d partitions", self._markers.transactional_id, len(self._missing))
        self._timer = asyncio.get_running_loop().call_later(self._pause_s, self._try, self._missing)
        self._pause_s = min(2 * self._pause_s, self._pause_s_max)
