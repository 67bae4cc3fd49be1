"""`headwater.flush.engine=thread`: flushes never go to the kernel's own threads."""

from pathlib import Path

from headwater.broker.writes.flush_thread import FlushThread
from tests.support.broker.embedded_broker import batch_of, create, produce, running


async def test_the_thread_flushes_where_the_setting_asks_for_it(tmp_path: Path) -> None:
    async with running(tmp_path, {"headwater.flush.engine": "thread"}) as broker:
        partition = await create(broker, "topic")
        for count in range(1, 4):
            assert (await produce(broker, partition, batch_of(b"v"))).error is None
            assert partition.is_flushed
            assert partition.high_watermark == count
        assert isinstance(broker.journal._engine, FlushThread)
