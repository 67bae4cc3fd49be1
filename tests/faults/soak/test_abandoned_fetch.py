"""Regression test of a soak failure: a long poll whose client had left kept files of deleted topics open until the
garbage collector ran."""

import gc
from pathlib import Path
from typing import Any

from headwater.broker.reads.fetch import Fetch, PartitionFetch
from headwater.listeners.kafka.apis.records import fetch as fetch_api
from tests.support.broker.embedded_broker import create, running


async def test_an_abandoned_fetch_is_freed_at_once(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as broker:
        partition = await create(broker, "topic")
        gc.collect()
        gc.disable()
        try:
            fetch = broker.fetch(
                [PartitionFetch(partition, 0, 1000)], bytes_min=1, bytes_max=1000, wait_ms=60_000, committed_only=False
            )
            asked: Any = None
            reply = fetch_api._FetchReply(asked, {}, fetch)
            reply.abandon()
            del fetch, reply

            assert not [each for each in gc.get_objects() if isinstance(each, Fetch)]
        finally:
            gc.enable()
