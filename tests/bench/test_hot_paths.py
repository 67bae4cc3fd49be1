"""Budgets for the hot paths, in counted instructions: a change that exceeds one has to raise the number here.

The budgets are a tenth above what was counted with CPython 3.11. Later Pythons need fewer instructions.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.counting import Instructions, allocations, instructions

from headwater.protocol.batches import columns, records
from headwater.protocol.batches.batch import Buffer
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.records.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headwater.protocol.messages.records.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headwater.protocol.wire.codec import decode, encode, encode_parts
from headwater.storage.disk import Disk, File
from headwater.testing import Broker
from tests.support.broker.embedded_broker import batch_of, create, running, settled, stage
from tests.support.broker.fetches import fetch
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import RawClient, produce_request

ONE_RECORD = batch_of(b"value")
RECORDS = 1000
PAYLOAD = records.encode([Record(number, 0, b"key", b"value") for number in range(RECORDS)], 0, 0)
TOGETHER = 64
REQUESTS = 50


# -- messages


def test_decoding_a_produce_request() -> None:
    request = encode(produce_request({"topic": {0: ONE_RECORD}}), 9)
    assert instructions(lambda: decode(ProduceRequest, 9, request)) <= 380


def test_encoding_a_produce_response() -> None:
    partition = PartitionProduceResponse(index=0, error_code=0, base_offset=1)
    response = ProduceResponse(responses=[TopicProduceResponse(name="topic", partition_responses=[partition])])
    assert instructions(lambda: encode(response, 9)) <= 245


def test_encoding_a_fetch_response_around_its_records() -> None:
    partition = PartitionData(partition_index=0, high_watermark=1, records=ONE_RECORD)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="topic", partitions=[partition])])
    assert instructions(lambda: encode_parts(response, 12, bytearray())) <= 276


# -- records


def test_decoding_a_record_allocates_three_objects() -> None:
    assert allocations(lambda: records.decode(PAYLOAD, RECORDS, 0, 0)) / RECORDS <= (3.1 if records.COMPILED else 4.1)


def test_decoding_into_columns_allocates_no_object_per_record() -> None:
    def build() -> object:
        builder = columns.ColumnBuilder(key=True, value=True, offset=True, timestamp=True)
        builder.append(PAYLOAD, RECORDS, 0, 0, None, 0, RECORDS)
        return builder.take()

    assert allocations(build) <= 60


# -- the broker


async def count_turn(work: Callable[[], Any]) -> int:
    """The fewest instructions that the work took in one turn of the event loop, over several turns."""
    counter, counts = Instructions(), list[int]()
    for _ in range(10):
        counter.begin()
        outcome = work()
        await asyncio.sleep(0)
        counter.end()
        await settled(outcome)
        counts.append(counter.count)
    return min(counts)


async def test_appending_a_batch(tmp_path: Path) -> None:
    async with running(tmp_path, {"headwater.flush": "os"}) as broker:
        partition = await create(broker, "topic")
        assert await count_turn(lambda: stage(broker, partition, ONE_RECORD, acks=1)) <= 1570


async def test_fetching_a_batch(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "topic")
        await settled(stage(broker, partition, ONE_RECORD))
        assert instructions(lambda: fetch(broker, (partition, 0))) <= 557


async def test_many_appends_that_wait_for_the_disk_share_one_write_and_one_flush(tmp_path: Path) -> None:
    disk = CountingDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "topic")
        await settled(stage(broker, partition, ONE_RECORD))
        disk.calls.clear()
        for outcome in [stage(broker, partition, ONE_RECORD) for _ in range(TOGETHER)]:
            await settled(outcome)
        assert disk.calls["write", "topic-0"] == 1
        assert disk.calls["flush", "topic-0"] == 1


class CountingFile(File):
    __slots__ = ("calls",)
    calls: Counter[tuple[str, str]]

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self.calls["write", self.path.parent.name] += 1
        super().pwritev(buffers, position)

    def sync_data(self) -> None:
        self.calls["flush", self.path.parent.name] += 1
        super().sync_data()


class CountingDisk(Disk):
    file_type = CountingFile

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        file = super().open(path, writable=writable, create=create)
        assert isinstance(file, CountingFile)
        file.calls = self.calls
        return file


def test_a_request_of_one_record_from_socket_to_socket() -> None:
    with Broker({"headwater.flush": "os", "num.partitions": "1"}) as broker, RawClient(broker) as client:
        client.create("topic")
        assert count_requests(broker, lambda: client.produce("topic", ONE_RECORD, acks=1)) <= 3140
        newest = client.offset("topic") - 1
        assert count_requests(broker, lambda: client.fetch("topic", newest)) <= 3660


def count_requests(broker: Broker, ask: Callable[[], object]) -> float:
    """Average instructions per request in the broker's thread: the minimum over several runs, between housekeeping."""
    counter, counts = Instructions(), list[int]()
    for _ in range(5):
        on_loop(broker, counter.begin)
        for _ in range(REQUESTS):
            ask()
        on_loop(broker, counter.end)
        counts.append(counter.count)
    return min(counts) / REQUESTS
