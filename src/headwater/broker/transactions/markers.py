"""The markers of one decision (commit or abort), written again until each partition has its marker on disk.

`start` stages all of them at once, so that markers that need no flush are written in the same loop turn. A partition
that fails does not delay the others.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from headwater.broker.pending import Fault, Pending
from headwater.coordination.transactions.commands import WriteMarkers
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicPartition

logger = logging.getLogger(__name__)

# No marker is needed: the partition is gone, or another marker has already ended the transaction there.
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
        """Markers that could not be written are tried again after `pause_s`, which doubles up to `pause_s_max`."""
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
        self._attempt(tuple(self._markers.partitions))

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _attempt(self, partitions: Sequence[TopicPartition]) -> None:
        self._timer = None
        self._missing = []
        # One more than there are partitions, so that the attempt does not end while it still starts writes.
        self._outstanding = len(partitions) + 1
        for where in partitions:
            self._write_to(where)
        self._attempt_done()

    def _write_to(self, where: TopicPartition) -> None:
        try:
            written = self._write(self._markers, where)
        except Exception as error:
            # Whatever the error is: the other partitions need their markers, and a decided transaction must not stay
            # open.
            logger.exception("a marker of %r cannot be written to %s", self._markers.transactional_id, where)
            self._attempt_done(where, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        else:
            written.then(lambda outcome: self._written(where, outcome))

    def _written(self, where: TopicPartition, outcome: HeadwaterError | Fault | None) -> None:
        if isinstance(outcome, Fault):
            id_ = self._markers.transactional_id
            logger.error("a marker of %r cannot be written to %s", id_, where, exc_info=outcome.cause)
            outcome = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(outcome))
        self._attempt_done(where, outcome)

    def _attempt_done(self, where: TopicPartition | None = None, error: HeadwaterError | None = None) -> None:
        if where is not None and error is not None and error.code not in _NEEDLESS:
            self._missing.append(where)
        self._outstanding -= 1
        if self._outstanding or self._is_cancelled:
            return
        if not self._missing:
            self._done(self._markers)
            return
        logger.warning("markers of %r are missing in %d partitions", self._markers.transactional_id, len(self._missing))
        self._timer = asyncio.get_running_loop().call_later(self._pause_s, self._attempt, self._missing)
        self._pause_s = min(2 * self._pause_s, self._pause_s_max)
