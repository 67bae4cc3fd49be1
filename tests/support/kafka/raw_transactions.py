"""One-line requests of transactional producers over the raw client."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.messages.records.fetch import PartitionData
from headwater.protocol.messages.records.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from headwater.protocol.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headwater.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from headwater.protocol.messages.transactions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from headwater.protocol.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.protocol.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.support.kafka.raw_client import NOW_MS, TIMEOUT_S, RawClient, batch_of, produce_request
from tests.support.kafka.raw_groups import Place

SETTINGS: Mapping[str, str] = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}

T = TypeVar("T")

TIMEOUT_MS = 60_000
READ_COMMITTED = 1

# The last request versions of protocol 1, and the first ones of protocol 2.
PRODUCE_1, PRODUCE_2 = 11, 12
END_1, END_2 = 4, 5
COMMIT_OFFSETS_1, COMMIT_OFFSETS_2 = 4, 5


class Producer(NamedTuple):
    """The identity with which a transactional producer sends its requests."""

    transactional_id: str
    id: int
    epoch: int

    def earlier(self) -> "Producer":
        return self._replace(epoch=self.epoch - 1)


# -- producer ids


def ask_init(
    client: RawClient,
    transactional_id: str | None,
    *,
    timeout_ms: int = TIMEOUT_MS,
    expected: tuple[int, int] = (-1, -1),
    version: int = 5,
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=expected[0],
        producer_epoch=expected[1],
    )
    return client.ask(request, InitProducerIdResponse, version)


def init(client: RawClient, transactional_id: str, **options: Any) -> Producer:
    """Retries until every partition has aborted the transaction that the predecessor left open."""
    told = _until(lambda: ask_init(client, transactional_id, **options), lambda each: not _must_wait(each.error_code))
    assert told.error_code == 0
    return Producer(transactional_id, told.producer_id, told.producer_epoch)


# -- partitions and records


def add_request(producer: Producer, topics: Mapping[str, Sequence[int]]) -> AddPartitionsToTxnRequest:
    asked = transaction_of(producer, topics)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=asked.topics,
        transactions=[asked],
    )


def transaction_of(
    producer: Producer, topics: Mapping[str, Sequence[int]], *, verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=list(indexes)) for name, indexes in topics.items()],
    )


def add_many(
    client: RawClient, producer: Producer, topics: Mapping[str, Sequence[int]], *, version: int = 3
) -> dict[tuple[str, int], int]:
    told = client.ask(add_request(producer, topics), AddPartitionsToTxnResponse, version)
    if version < 4:
        return codes_of(told.results_by_topic_v3_and_below)
    (result,) = told.results_by_transaction
    assert (told.error_code, result.transactional_id) == (0, producer.transactional_id)
    return codes_of(result.topic_results)


def codes_of(results: Sequence[AddPartitionsToTxnTopicResult]) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in results
        for each in topic.results_by_partition
    }


def add(client: RawClient, producer: Producer, topic: str, *, version: int = 3) -> int:
    """Adds a partition; retries until the previous transaction has ended there."""
    return _until(
        lambda: add_many(client, producer, {topic: [0]}, version=version)[topic, 0], lambda code: not _must_wait(code)
    )


def transactional_batch(producer: Producer, *values: bytes, sequence: int = 0) -> bytes:
    return batch_of(
        *values,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=True,
        timestamp=NOW_MS,
    )


def write_request(producer: Producer, topic: str, *values: bytes, sequence: int = 0, acks: int = -1) -> ProduceRequest:
    """Names the topic instead of its id, and so works up to version 12."""
    batch = transactional_batch(producer, *values, sequence=sequence)
    return produce_request({topic: {0: batch}}, acks=acks, transactional_id=producer.transactional_id)


def write(
    client: RawClient, producer: Producer, topic: str, *values: bytes, sequence: int = 0, version: int = PRODUCE_2
) -> PartitionProduceResponse:
    """Retries until the previous transaction has ended there."""
    request = write_request(producer, topic, *values, sequence=sequence)
    return _until(
        lambda: client.ask(request, ProduceResponse, version).responses[0].partition_responses[0],
        lambda told: not _must_wait(told.error_code),
    )


def written(client: RawClient, producer: Producer, topic: str, *values: bytes, **options: Any) -> None:
    told = write(client, producer, topic, *values, **options)
    assert told.error_code == 0, told.error_message


# -- offsets


def add_offsets(client: RawClient, producer: Producer, group: str, *, version: int = 4) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    return client.ask(request, AddOffsetsToTxnResponse, version).error_code


def commit_offset(
    client: RawClient,
    producer: Producer,
    group: str,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    place: Place = Place(),  # noqa: B008 (it cannot change)
    version: int = COMMIT_OFFSETS_2,
) -> int:
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        generation_id=place.generation,
        member_id=place.member_id,
        group_instance_id=place.instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=0,
                        committed_metadata="read",
                    )
                ],
            )
        ],
    )
    (told,) = client.ask(request, TxnOffsetCommitResponse, version).topics
    assert (told.name, told.partitions[0].partition_index) == (topic, partition)
    return told.partitions[0].error_code


# -- ends


def end_request(producer: Producer, *, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=commit,
    )


def end(client: RawClient, producer: Producer, *, commit: bool = True, version: int = END_2) -> EndTxnResponse:
    return client.ask(end_request(producer, commit=commit), EndTxnResponse, version)


def ended(client: RawClient, producer: Producer, *, commit: bool = True, version: int = END_2) -> Producer:
    """Ends the transaction, waits for all markers, and returns the producer's identity for the next one."""
    told = end(client, producer, commit=commit, version=version)
    assert told.error_code == 0
    await_state(client, producer.transactional_id, "CompleteCommit" if commit else "CompleteAbort")
    if version < END_2:
        assert (told.producer_id, told.producer_epoch) == (-1, -1)
        return producer
    return Producer(producer.transactional_id, told.producer_id, told.producer_epoch)


# -- state and contents


def describe(client: RawClient, *transactional_ids: str) -> list[TransactionState]:
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    return client.ask(request, DescribeTransactionsResponse, 0).transaction_states


def state(client: RawClient, transactional_id: str) -> str:
    (told,) = describe(client, transactional_id)
    assert told.error_code == 0
    return told.transaction_state


def await_state(client: RawClient, transactional_id: str, wanted: str) -> None:
    _until(lambda: state(client, transactional_id), lambda found: found == wanted)


def producers(client: RawClient, topic: str, partition: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    (told,) = client.ask(request, DescribeProducersResponse, 0).topics
    assert (told.name, told.partitions[0].partition_index) == (topic, partition)
    return told.partitions[0]


def fetched(client: RawClient, topic: str, *, isolation_level: int = 0) -> Iterator[PartitionData]:
    """One response per fetch, since a fetch ends with its segment."""
    offset = 0
    while True:
        data = client.fetch(topic, offset, isolation_level=isolation_level)
        assert data.error_code == 0
        if not data.records:
            return
        yield data
        offset = [header.next_offset for header, _ in batches.iterate(data.records)][-1]


def markers(client: RawClient, topic: str) -> list[tuple[int, int, bool]]:
    """Each marker in the partition: producer id, epoch, and whether it commits."""
    found: list[tuple[int, int, bool]] = []
    for data in fetched(client, topic):
        for header, batch in batches.iterate(data.records or b""):
            if header.is_control:
                (record,) = batches.read_records(batch, header, 1 << 20)
                marker = batches.read_marker(record)
                assert marker is not None
                found.append((header.producer_id, header.producer_epoch, marker.committed))
    return found


def values(client: RawClient, topic: str) -> list[bytes | None]:
    """Every record in the log, committed or not."""
    return [
        record.value
        for data in fetched(client, topic)
        for header, batch in batches.iterate(data.records or b"")
        if not header.is_control
        for record in batches.read_records(batch, header, 1 << 20)
    ]


def committed_values(client: RawClient, topic: str) -> list[bytes | None]:
    """The values that a read_committed consumer keeps after it dropped the aborted transactions of each fetch."""
    found: list[bytes | None] = []
    for data in fetched(client, topic, isolation_level=READ_COMMITTED):
        waiting = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset)
        aborting: set[int] = set()
        for header, batch in batches.iterate(data.records or b""):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborting.add(waiting.pop(0).producer_id)
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                found += [record.value for record in batches.read_records(batch, header, 1 << 20)]
    return found


def stable_offset(client: RawClient, topic: str) -> int:
    return client.fetch(topic, 0, isolation_level=READ_COMMITTED).last_stable_offset


def _must_wait(code: int) -> bool:
    return code in {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS}


def _until(ask: Callable[[], T], is_wanted: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_wanted(found := ask()):
        assert time.monotonic() < deadline, f"it never came to be: {found}"
    return found


def fenced(version: int, *, known_from: int) -> ErrorCode:
    """The error code by which a version says that a newer producer has fenced this one."""
    return ErrorCode.PRODUCER_FENCED if version >= known_from else ErrorCode.INVALID_PRODUCER_EPOCH
