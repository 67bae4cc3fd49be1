"""Sends sealed batches to the leaders of their partitions, in order, and retries until each is acknowledged.

Law: an idempotent batch keeps its sequence in every retry, so that it is never written twice. If a batch cannot be
delivered, that is an error, and the producer continues under a new producer id with sequences from 0.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headwater.client.cluster import Cluster
from headwater.client.connection import BrokerConnection, InFlightRequest
from headwater.client.errors import ClientError, Refused, check
from headwater.errors import ErrorCode
from headwater.ids import NodeId, TopicName, TopicPartition
from headwater.protocol.batches import batch
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.records.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

ACKS_ALL = -1
# A broker remembers the last five batches of a producer. With more in flight it could not tell a retry from a gap.
REQUESTS_IN_FLIGHT_MAX = 5

# From version 13 on, requests name topics by id. This client uses names.
_PRODUCE_VERSION_MAX = 12
_INT32_MAX = _SEQUENCE_MASK = 2**31 - 1
_UNKNOWN_OFFSET = -1
# Limit for decoding a batch that must be split. The producer built the batch from records in memory, so it is trusted.
_DECODED_BYTES_MAX = _INT32_MAX


class DeliveredBatch(NamedTuple):
    """An acknowledged batch. `base_offset` is -1 with acks=0, because the broker does not answer."""

    partition: TopicPartition
    base_offset: int
    record_count: int
    byte_count: int


class EncodedBatch(NamedTuple):
    """Encoded records of one partition, with room for the batch header: the first `batch.HEADER_SIZE` bytes of
    `payload` are filled in by `Delivery`, which takes ownership of the buffer."""

    partition: TopicPartition
    payload: bytearray
    record_count: int
    base_timestamp: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    producer_id: int
    producer_epoch: int


_NO_IDENTITY = ProducerIdentity(batch.NO_PRODUCER_ID, batch.NO_PRODUCER_EPOCH)


@dataclass(slots=True)
class _SealedBatch:
    """A complete batch with its sequence. `number` is its place in the order of sealing; `error` is the failure of its
    last attempt."""

    number: int
    partition: TopicPartition
    record_count: int
    base_sequence: int
    data: bytearray
    error: ClientError | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    connection: BrokerConnection
    sent: InFlightRequest[ProduceResponse]
    batches: Sequence[_SealedBatch]


class Delivery:
    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int,
        idempotent: bool,
        codec: Codec,
        level: int | None,
        timeout_ms: int,
        on_delivered: Callable[[DeliveredBatch], None] | None,
        transactional_id: str | None = None,
        new_identity: Callable[[], ProducerIdentity] | None = None,
    ) -> None:
        """`new_identity` provides the producer id and epoch. It is called when the first batch is sealed, and again
        after a batch that could not be delivered. By default InitProducerId gives a fresh producer id."""
        self._cluster = cluster
        self._acks = acks
        self._idempotent = idempotent
        self._codec = codec
        self._level = level
        self._timeout_ms = timeout_ms
        self._on_delivered = on_delivered
        self._transactional_id = transactional_id
        self._new_identity = new_identity or self._request_identity
        # Without sequences, a later batch could overtake an earlier one that is retried.
        self._in_flight_max = REQUESTS_IN_FLIGHT_MAX if idempotent else 1
        self._identity = _NO_IDENTITY
        self._sequences: dict[TopicPartition, int] = {}
        self._in_flight: deque[_Request] = deque()
        self._sealed_count = 0

    @property
    def identity(self) -> ProducerIdentity | None:
        """None before the first batch."""
        return None if self._identity is _NO_IDENTITY else self._identity

    def make_room(self) -> None:
        """Wait until one more request may be in flight."""
        self._await_answers(self._in_flight_max - 1)

    def deliver(self, accumulated: Iterable[tuple[TopicPartition, Sequence[Record]]]) -> None:
        """Send one batch for each partition, and return without waiting for the answers."""
        self._deliver([self._seal_records(partition, records) for partition, records in accumulated])

    def deliver_encoded(self, encoded: Iterable[EncodedBatch]) -> None:
        """Like `deliver`, for batches whose records are encoded already."""
        self._deliver([self._seal_encoded(each) for each in encoded])

    def _deliver(self, batches: Sequence[_SealedBatch]) -> None:
        failed = self._transmit(batches)
        if failed:
            self._recover(failed)

    def drain(self) -> None:
        """Wait until everything sent is acknowledged."""
        self._await_answers(0)

    def _await_answers(self, in_flight_max: int) -> None:
        while len(self._in_flight) > in_flight_max:
            failed = self._read_answer()
            if failed:
                self._recover(failed)

    # -- sealing

    def _seal_records(self, partition: TopicPartition, records: Sequence[Record]) -> _SealedBatch:
        sequence = self._next_sequence(partition)
        return self._sealed(partition, len(records), sequence, self._build(records, sequence))

    def _seal_encoded(self, encoded: EncodedBatch) -> _SealedBatch:
        sequence = self._next_sequence(encoded.partition)
        batch.complete(
            encoded.payload,
            record_count=encoded.record_count,
            base_timestamp=encoded.base_timestamp,
            max_timestamp=encoded.max_timestamp,
            codec=self._codec,
            level=self._level,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=sequence,
            transactional=self._transactional_id is not None,
        )
        return self._sealed(encoded.partition, encoded.record_count, sequence, encoded.payload)

    def _next_sequence(self, partition: TopicPartition) -> int:
        if not self._idempotent:
            return batch.NO_SEQUENCE
        if self._identity is _NO_IDENTITY:
            self._identity = self._new_identity()
        return self._sequences.get(partition, 0)

    def _sealed(self, partition: TopicPartition, record_count: int, sequence: int, data: bytearray) -> _SealedBatch:
        self._sealed_count += 1
        if self._idempotent:
            # Only after the batch is built: if building it failed, its sequence numbers would be a permanent gap.
            self._sequences[partition] = (sequence + record_count) & _SEQUENCE_MASK
        return _SealedBatch(self._sealed_count, partition, record_count, sequence, data)

    def _build(self, records: Sequence[Record], sequence: int) -> bytearray:
        return batch.build(
            records,
            codec=self._codec,
            level=self._level,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=sequence,
            transactional=self._transactional_id is not None,
        )

    def _request_identity(self) -> ProducerIdentity:
        def read(response: InitProducerIdResponse) -> ProducerIdentity:
            check(response.error_code, "a producer id")
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_INT32_MAX)
        return self._cluster.ask_any(request, InitProducerIdResponse, read)

    # -- sending

    def _transmit(self, batches: Sequence[_SealedBatch]) -> list[_SealedBatch]:
        """Send at most one batch for each partition. Return the batches that could not even be sent."""
        failed: list[_SealedBatch] = []
        by_leader: dict[NodeId, list[_SealedBatch]] = {}
        for sealed in batches:
            try:
                by_leader.setdefault(self._cluster.leader(sealed.partition), []).append(sealed)
            except ClientError as error:
                failed += _fail([sealed], error)
        for node, group in by_leader.items():
            try:
                self._send(self._cluster.node(node), group)
            except ClientError as error:
                failed += _fail(group, error)
        return failed

    def _send(self, connection: BrokerConnection, batches: Sequence[_SealedBatch]) -> None:
        topics: dict[TopicName, list[PartitionProduceData]] = {}
        for sealed in batches:
            data = PartitionProduceData(index=sealed.partition.partition, records=sealed.data)
            topics.setdefault(sealed.partition.topic, []).append(data)
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._cluster.timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )
        if self._acks == 0:
            connection.send_only(request, version_max=_PRODUCE_VERSION_MAX)
            for sealed in batches:
                self._delivered(sealed, _UNKNOWN_OFFSET)
            return
        sent = connection.send(request, ProduceResponse, version_max=_PRODUCE_VERSION_MAX)
        self._in_flight.append(_Request(connection, sent, batches))

    def _read_answer(self) -> list[_SealedBatch]:
        """Read the answer to the oldest request. Return the batches that were not accepted."""
        request = self._in_flight[0]
        try:
            # Twice the time-out: the broker itself may take `timeout_ms` before it answers.
            response = request.connection.wait(request.sent, timeout_ms=2 * self._cluster.timeout_ms)
        except ClientError as error:
            self._in_flight.popleft()
            return [*_fail(request.batches, error)]
        self._in_flight.popleft()
        answers = {
            (topic.name, answer.index): answer for topic in response.responses for answer in topic.partition_responses
        }
        failed: list[_SealedBatch] = []
        for sealed in request.batches:
            answer = answers.get(sealed.partition)
            error = _error_of(sealed, answer)
            if error is None:
                self._delivered(sealed, answer.base_offset if answer else _UNKNOWN_OFFSET)
            else:
                failed += _fail([sealed], error)
        return failed

    def _delivered(self, sealed: _SealedBatch, base_offset: int) -> None:
        if self._on_delivered is not None:
            self._on_delivered(DeliveredBatch(sealed.partition, base_offset, sealed.record_count, len(sealed.data)))

    # -- retries

    def _recover(self, failed: list[_SealedBatch]) -> None:
        """Wait until nothing is in flight, then send each partition's failed batches one by one, oldest first."""
        while self._in_flight:
            failed += self._read_answer()
        queues: dict[TopicPartition, deque[_SealedBatch]] = {}
        for sealed in sorted(failed, key=lambda sealed: sealed.number):
            if sealed.error is not None and sealed.error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                # Most likely only because the batch before it failed: send it in its turn, and see.
                sealed.error = None
            queues.setdefault(sealed.partition, deque()).append(sealed)
        fatal: ClientError | None = None
        backoff = self._cluster.backoff(self._timeout_ms)
        while queues:
            temporary: ClientError | None = None
            for partition, queue in list(queues.items()):
                error = queue[0].error
                if error is None or self._cluster.should_retry(error):
                    temporary = error or temporary
                elif error.code == ErrorCode.MESSAGE_TOO_LARGE and queue[0].record_count > 1:
                    queue.extendleft(reversed(self._split(queue.popleft())))
                else:
                    # Give up the partition's later batches, too: they must not appear without the failed one.
                    fatal = fatal or error
                    del queues[partition]
            if temporary is not None:
                self._cluster.forget({partition.topic for partition in queues})
                try:
                    backoff.pause(temporary)
                except ClientError as error:
                    fatal = fatal or error
                    break
            self._send_heads(queues)
        if fatal is not None:
            self._identity = _NO_IDENTITY
            self._sequences.clear()
            raise fatal

    def _send_heads(self, queues: dict[TopicPartition, deque[_SealedBatch]]) -> None:
        heads = [queue[0] for queue in queues.values()]
        failed = self._transmit(heads)
        while self._in_flight:
            failed += self._read_answer()
        remaining = {sealed.partition for sealed in failed}
        for head in heads:
            if head.partition in remaining:
                continue
            queue = queues[head.partition]
            queue.popleft()
            if not queue:
                del queues[head.partition]

    def _split(self, sealed: _SealedBatch) -> tuple[_SealedBatch, _SealedBatch]:
        """Split a batch into two with the same records and sequences."""
        records = batch.read_records(sealed.data, batch.read_header(sealed.data), _DECODED_BYTES_MAX)
        half = len(records) // 2
        return self._part(sealed, records[:half], 0), self._part(sealed, records[half:], half)

    def _part(self, sealed: _SealedBatch, records: Sequence[Record], start: int) -> _SealedBatch:
        sequence = sealed.base_sequence
        if sequence != batch.NO_SEQUENCE:
            sequence = (sequence + start) & _SEQUENCE_MASK
        numbered = [
            Record(index, record.timestamp, record.key, record.value, record.headers)
            for index, record in enumerate(records)
        ]
        data = self._build(numbered, sequence)
        return _SealedBatch(sealed.number, sealed.partition, len(numbered), sequence, data)


def _fail(batches: Sequence[_SealedBatch], error: ClientError) -> Sequence[_SealedBatch]:
    for sealed in batches:
        sealed.error = error
    return batches


def _error_of(sealed: _SealedBatch, answer: PartitionProduceResponse | None) -> ClientError | None:
    if answer is None:
        return ClientError(f"the broker's answer leaves out {sealed.partition}")
    if answer.error_code == ErrorCode.NONE:
        return None
    reasons = [error.batch_index_error_message for error in answer.record_errors if error.batch_index_error_message]
    message = answer.error_message or (reasons[0] if reasons else None)
    return Refused(answer.error_code, f"{sealed.record_count} records for {sealed.partition}", message)
