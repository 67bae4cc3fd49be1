"""Puts a broker to use before anything is measured: what Java runs often it compiles first, and slowly until then."""

import time
from collections.abc import Callable

from benchmarks.loads import bulk, frames
from benchmarks.loads.access import OPEN, Access

FETCH_BYTES = 1024 * 1024


def produce_and_fetch(
    ready: Callable[[], None], address: str, topic: str, seconds: float, access: Access = OPEN
) -> int:
    """One batch after another, each read again; gives their number."""
    produce = frames.produce_frame(topic, 0, frames.record_batch(bulk.BATCH_RECORDS, 100), -1)
    one = frames.produce_frame(topic, 0, frames.record_batch(1, 100), -1)
    fetch = frames.FetchFrame(topic, 0, bytes_max=FETCH_BYTES)
    done = 0
    with frames.connect(address, access) as connection:
        ready()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            frames.produce_once(connection, produce)
            frames.produce_once(connection, one)
            frames.exchange(connection, fetch.at(done * (bulk.BATCH_RECORDS + 1)))
            done += 1
    return done
