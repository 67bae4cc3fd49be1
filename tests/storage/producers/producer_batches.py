"""Batches of one producer, and the producer states after them."""

import pytest

from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches.batch import BatchHeader
from headwater.storage.producers.states import ProducerStates
from tests.support.storage.builders import NOW_MS, numbered

SEQUENCE_MAX = 2**31 - 1


def batch(
    sequence: int, offset: int = 0, *, epoch: int = 0, count: int = 1, transactional: bool = False
) -> BatchHeader:
    header, _ = numbered(
        offset,
        count,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return header


def states(*headers: BatchHeader) -> ProducerStates:
    producers = ProducerStates()
    for header in headers:
        assert producers.check(header) is None
        producers.update(header, NOW_MS)
    return producers


def refusal(producers: ProducerStates, header: BatchHeader) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        producers.check(header)
    return refused.value.code
