"""A partition with interleaved transactions of several producers, read with read_committed and read_uncommitted.

Law: what is fetched is known before the clock runs, so that no byte of it is looked at while it does.
"""

import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from benchmarks.loads import frames
from benchmarks.processes import cpu_seconds
from benchmarks.topics import retrying
from headwater.client.connection import BrokerConnection
from headwater.client.errors import check
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.protocol.batches import batch
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.records.fetch import FetchResponse
from headwater.protocol.messages.records.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PRODUCERS = 10
RECORD_BYTES = 100
# About what a Java client puts into a batch by default.
BATCH_RECORDS_MAX = 100
# One of this many transactions is aborted.
ABORTED_EVERY = 10
TRANSACTION_KEY_TYPE = 1
TIMEOUT_MS = 60_000
PRODUCE_VERSION = 12
COORDINATOR_VERSION = 4
RETRY_PAUSE_S = 0.001
RETRY_TIMEOUT_S = 30.0
# The default fetch size of a consumer per partition.
FETCH_BYTES = 1024 * 1024
RECEIVE_BYTES = 1024 * 1024
READ_UNCOMMITTED, READ_COMMITTED = ISOLATION_LEVELS = (0, 1)


class Reading(NamedTuple):
    bytes: int
    broker_s: float

    @property
    def broker_s_per_gigabyte(self) -> float:
        return self.broker_s / self.bytes * 1e9


class _Producer:
    """One transactional id in the second protocol: a batch brings its partition along, an end the next epoch."""

    def __init__(self, connection: BrokerConnection, number: int, values: Sequence[bytes]) -> None:
        self.transactional_id = f"benchmark-{number}"
        self._connection = connection
        self._values = values
        self._sequence = 0
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS, producer_id=-1, producer_epoch=-1
        )
        made = connection.call(request, InitProducerIdResponse)
        check(made.error_code, self.transactional_id)
        self._id, self._epoch = made.producer_id, made.producer_epoch

    def produce(self, topic: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        records = batch.build(
            [Record(index, now_ms, None, value) for index, value in enumerate(self._values)],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data]
        )
        while True:
            answer = self._connection.call(request, ProduceResponse, version_max=PRODUCE_VERSION)
            answered = answer.responses[0].partition_responses[0]
            if answered.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            # The markers of the transaction before are still on their way.
            time.sleep(RETRY_PAUSE_S)
        check(answered.error_code, self.transactional_id, answered.error_message)
        self._sequence += len(self._values)

    def end(self, *, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        ended = self._connection.call(request, EndTxnResponse)
        check(ended.error_code, self.transactional_id)
        self._id, self._epoch, self._sequence = ended.producer_id, ended.producer_epoch, 0


def fill(ready: Callable[[], None], address: str, topic: str, transaction_records: int, bytes_wanted: int) -> int:
    """Fill partition 0; returns the number of transactions. Batches of all open transactions are interleaved."""
    batch_records = min(transaction_records, BATCH_RECORDS_MAX)
    batches = transaction_records // batch_records
    steps = bytes_wanted // (batch_records * RECORD_BYTES * PRODUCERS)
    random = Random(1)
    values = [random.randbytes(RECORD_BYTES) for _ in range(batch_records)]
    ended = 0
    with BrokerConnection(Endpoint.parse(address)) as connection:
        retrying(lambda: _find_coordinators(connection), RETRY_TIMEOUT_S)
        producers = [
            retrying(partial(_Producer, connection, number, values), RETRY_TIMEOUT_S) for number in range(PRODUCERS)
        ]
        ready()
        for step in range(max(steps, batches)):
            for number, producer in enumerate(producers):
                producer.produce(topic)
                # They end one after another, so that one is always open until the very end.
                if (step + number) % batches == batches - 1 or step == max(steps, batches) - 1:
                    ended += 1
                    producer.end(is_commit=ended % ABORTED_EVERY != 0)
    return ended


def _find_coordinators(connection: BrokerConnection) -> None:
    """A broker may make room for transactions only when it is first asked."""
    asked = FindCoordinatorRequest(
        key_type=TRANSACTION_KEY_TYPE, coordinator_keys=[f"benchmark-{number}" for number in range(PRODUCERS)]
    )
    found = connection.call(asked, FindCoordinatorResponse, version_max=COORDINATOR_VERSION)
    for coordinator in found.coordinators:
        check(coordinator.error_code, coordinator.key, coordinator.error_message)


def fetch(
    ready: Callable[[], None], address: str, topic: str, bytes_wanted: int, processes: Collection[int]
) -> Mapping[int, Reading]:
    """Reads partition 0, in which no transaction is open, at both isolation levels until each has seen enough.

    The levels take turns of a fraction of a second, so that other load of the machine affects both alike.
    """
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    read_bytes = dict.fromkeys(ISOLATION_LEVELS, 0)
    broker_s = dict.fromkeys(ISOLATION_LEVELS, 0.0)
    with frames.connect(address) as connection:
        walks = {level: _walk(connection, topic, level) for level in ISOLATION_LEVELS}
        ready()
        order = ISOLATION_LEVELS
        while min(read_bytes.values()) < bytes_wanted:
            for level in order:
                before_s = cpu_seconds(processes)
                for request, size in walks[level]:
                    connection.sendall(request)
                    _discard(connection, buffer)
                    read_bytes[level] += size
                broker_s[level] += cpu_seconds(processes) - before_s
            # The order alternates, so that neither level always comes second.
            order = order[::-1]
    return {level: Reading(read_bytes[level], broker_s[level]) for level in ISOLATION_LEVELS}


def _walk(connection: socket.socket, topic: str, isolation_level: int) -> list[tuple[bytes, int]]:
    """The fetches that read the whole partition, and how many bytes of batches each of them brings."""
    frame = frames.FetchFrame(topic, 0, bytes_max=FETCH_BYTES, wait_ms_max=0, isolation_level=isolation_level)
    walk: list[tuple[bytes, int]] = []
    offset = 0
    while True:
        request = bytes(frame.at(offset))
        response = frames.exchange(connection, request)
        served = frames.read_response(FetchResponse, frames.FETCH_VERSION, response).responses[0].partitions[0]
        check(served.error_code, f"fetch at {offset}")
        headers = [header for header, _ in batch.iterate(served.records or b"")]
        if not headers:
            break
        walk.append((request, sum(header.size for header in headers)))
        offset = headers[-1].next_offset
    if offset != served.high_watermark:
        raise RuntimeError(f"what lies between {offset} and {served.high_watermark} cannot be read")
    return walk


def _discard(connection: socket.socket, buffer: memoryview) -> None:
    remaining = frames.read_size(connection)
    while remaining:
        received = connection.recv_into(buffer[: min(remaining, len(buffer))])
        if not received:
            raise ConnectionError("the broker closed the connection")
        remaining -= received
