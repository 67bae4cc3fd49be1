"""The log of transactions writes only the last event of each transactional id in a batch."""

from pathlib import Path

from headwater.broker.pending import Pending
from headwater.broker.transactions.log import TransactionLog
from headwater.broker.writes.journal import Append
from headwater.coordination.transactions.events import Event, TransactionForgotten, TransactionState, TransactionStored
from headwater.ids import ProducerId, TransactionalId
from tests.support.broker.embedded_broker import create, running, settled

ONE, OTHER = TransactionalId("one"), TransactionalId("other")


def stored(transactional_id: TransactionalId, epoch: int) -> TransactionStored:
    return TransactionStored(
        transactional_id, ProducerId(7), epoch, 60_000, TransactionState.EMPTY, frozenset(), -1, update_timestamp_ms=1
    )


async def test_an_event_superseded_within_its_batch_is_not_written(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        log = TransactionLog(await create(broker, "transactions"))

        async def append(*events: Event) -> None:
            done: Pending[Append] = Pending()
            log.append(events, Append(done.resolve), now_ms=1)
            assert (await settled(done)).error is None

        await append(stored(ONE, 1), stored(OTHER, 1), stored(ONE, 2), TransactionForgotten(OTHER))
        await append(stored(ONE, 3))
        assert [event for events in log.replay(1 << 20) for event in events] == [
            stored(ONE, 2),
            TransactionForgotten(OTHER),
            stored(ONE, 3),
        ]
