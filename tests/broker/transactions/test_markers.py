"""The markers of one decision reach every partition, with retries for the ones that fail."""

import asyncio

from headwater.broker.pending import Pending
from headwater.broker.transactions.markers import MarkerWriter
from headwater.coordination.transactions.commands import PROTOCOL_2, WriteMarkers
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId
from tests.support.broker.embedded_broker import TIMEOUT_S

ONE, TWO = (TopicPartition(TopicName("topic"), index) for index in range(2))
MARKERS = WriteMarkers(TransactionalId("tx"), ProducerId(7), 1, True, frozenset({ONE, TWO}), PROTOCOL_2, 0)


class Partitions:
    """Refuses markers with the given errors first, then accepts them."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = {ONE: list(refusals)}
        self.attempts: list[TopicPartition] = []
        self.unanswered: list[Pending[HeadwaterError | None]] = []
        self.is_answering = True

    def write(self, markers: WriteMarkers, where: TopicPartition) -> Pending[HeadwaterError | None]:
        assert markers is MARKERS
        self.attempts.append(where)
        written: Pending[HeadwaterError | None] = Pending()
        refusals = self.refusals.get(where, [])
        refusal = refusals.pop(0) if refusals else None
        if refusal is not None and not isinstance(refusal, HeadwaterError):
            raise refusal
        if self.is_answering:
            written.resolve(refusal)
        else:
            self.unanswered.append(written)
        return written


def writing(partitions: Partitions, done: asyncio.Future[WriteMarkers], pause_s: float = 0.0) -> MarkerWriter:
    made = MarkerWriter(MARKERS, partitions.write, done.set_result, pause_s=pause_s, pause_s_max=pause_s)
    made.start()
    return made


async def test_all_markers_are_written_at_once_without_errors() -> None:
    partitions = Partitions()
    done: asyncio.Future[WriteMarkers] = asyncio.Future()
    writing(partitions, done)
    assert done.result() is MARKERS
    assert sorted(partitions.attempts) == [ONE, TWO]


async def test_only_failed_markers_are_retried_even_after_an_unexpected_error() -> None:
    partitions = Partitions(Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"), RuntimeError("a bug"))
    done: asyncio.Future[WriteMarkers] = asyncio.Future()
    writing(partitions, done)
    assert await asyncio.wait_for(done, TIMEOUT_S) is MARKERS
    assert (partitions.attempts.count(ONE), partitions.attempts.count(TWO)) == (3, 1)


async def test_a_deleted_partition_needs_no_marker() -> None:
    partitions = Partitions(Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it is gone"))
    done: asyncio.Future[WriteMarkers] = asyncio.Future()
    writing(partitions, done)
    assert done.result() is MARKERS


async def test_a_cancelled_writer_neither_retries_nor_completes() -> None:
    failing = Partitions(Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
    silent = Partitions()
    silent.is_answering = False
    done: asyncio.Future[WriteMarkers] = asyncio.Future()
    for partitions in (failing, silent):
        writing(partitions, done, pause_s=0.001).cancel()
    for written in silent.unanswered:
        written.resolve(None)
    await asyncio.sleep(0.002)
    assert len(failing.attempts) == 2
    assert not done.done()
