"""Produce (key 0), v3-13: checks and stages each partition's batch at once; replies when all of them are acknowledged.

v5 adds the log start offset, v7 allows zstd, v8 names the records that are to blame, v9 is flexible, v11 adds
TRANSACTION_ABORTABLE, v12 adds partitions to the transaction (KIP-890), v13 names topics by id."""

from collections.abc import Iterable
from typing import TypeAlias

from headwater.broker.access.guard import Guard
from headwater.broker.pending import Fault, Pending
from headwater.broker.transactions.coordinator import TransactionMembership
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicId, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.outcome import NO_REPLY, EncodedReply, HangUp, NoReply
from headwater.listeners.kafka.reply_templates import ReplyTemplates
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.invalid_record import InvalidRecord
from headwater.protocol.messages.records.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headwater.security.acl import Operation, transactional_id

REQUEST = ProduceRequest

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS_PARTITIONS = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13
_ATTRIBUTES_LOW_BYTE = 22
_CODEC_MASK = 7
_TRANSACTIONAL = 16


def _partition_response(index: int, append: Append) -> PartitionProduceResponse:
    error = append.error
    if error is not None:
        if isinstance(error, Fault):
            raise error.cause
        return PartitionProduceResponse(
            index=index,
            error_code=error.code,
            base_offset=-1,
            record_errors=_record_errors(error),
            error_message=str(error),
        )
    return PartitionProduceResponse(
        index=index,
        base_offset=append.base_offset,
        log_append_time_ms=append.log_append_time_ms,
        log_start_offset=append.log_start_offset,
    )


def _record_errors(error: HeadwaterError) -> list[BatchIndexAndErrorMessage]:
    """Name the records that are to blame: the client drops them and may send the others again."""
    if not isinstance(error, InvalidRecord) or error.index < 0:
        return []
    refused = error.refused or [(error.index, str(error))]
    return [BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=fault) for index, fault in refused]


Reply: TypeAlias = ProduceResponse | EncodedReply | HangUp | NoReply


class _ProduceReply(Pending[Reply]):
    """Collects the outcomes of one request. With acks=0 nothing is sent, but the request keeps its place in the order
    of replies, and a failure closes the connection: a client that expects no reply has no other way to notice."""

    __slots__ = ("_appends", "_outstanding", "_request", "_templates", "_version", "shape")

    def __init__(self, request: ProduceRequest, version: int, templates: ReplyTemplates) -> None:
        Pending.__init__(self)  # `super()` costs more than what it finds
        self._templates = templates
        self._request = request
        self._version = version
        self.shape: list[str | bytes | int] = [version]
        self._appends: list[Append] = []  # in the order of the request's partitions
        self._outstanding = 1  # the request itself, until all of it is staged

    def expect(self, index: int) -> Append:
        self.shape.append(index)
        append = Append(self.append_done)
        self._appends.append(append)
        self._outstanding += 1
        return append

    def append_done(self, append: Append | None = None) -> None:  # noqa: ARG002 (which one makes no difference)
        self._outstanding -= 1
        if not self._outstanding:
            try:
                response = self._answer() if self._request.acks else self._failure()
            except Exception as error:
                self._appends.clear()
                # Only the client of this request is concerned, never the caller, who tells others their outcomes, too.
                self.fail(error)
                return
            # Each append refers back to this reply: without this the reference cycles would wait for the garbage
            # collector.
            self._appends.clear()
            self.resolve(response)

    def _failure(self) -> HangUp | NoReply:
        errors = (append.error for append in self._appends if append.error is not None)
        return next((HangUp(f"produce with acks=0 failed: {error}") for error in errors), NO_REPLY)

    def _answer(self) -> ProduceResponse | EncodedReply:
        for append in self._appends:
            if append.error is not None:
                return self._response(self._appends)
        shape = tuple(self.shape)
        template = self._templates.find(shape)
        if template is not None:
            return template.filled(self._appends)
        self._templates.learn(shape, self._version, len(self._appends), self._response)
        return self._response(self._appends)

    def _response(self, appends: Iterable[Append]) -> ProduceResponse:
        appends = iter(appends)
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        _partition_response(data.index, next(appends)) for data in topic.partition_data
                    ],
                )
                for topic in self._request.topic_data
            ]
        )


def handle(request: ProduceRequest, context: Context) -> Pending[Reply]:
    reply = _ProduceReply(request, context.api_version, context.reply_templates)
    guard = context.guard
    refusal = _refuse_whole(request)
    membership = None
    if request.transactional_id is not None:
        membership = _membership(request.transactional_id, context)
        if not guard.is_open:
            refusal = _denial(request, request.transactional_id, guard) or refusal
    broker = context.broker
    is_by_name = context.api_version < FIRST_VERSION_WITH_TOPIC_IDS
    for topic in request.topic_data:
        # Text or bytes, so that a topic cannot be confused with a partition's index.
        reply.shape.append(topic.name or topic.topic_id.bytes)
        for data in topic.partition_data:
            append = reply.expect(data.index)
            try:
                if refusal is not None:
                    raise refusal
                if not guard.is_open:
                    name = topic.name if is_by_name else _topic_name(topic, context)
                    if not guard.writes(name):
                        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no right to write to topic '{name}'")
                if is_by_name:
                    partition = broker.partition(topic.name, data.index)
                else:
                    partition = broker.partition_by_id(TopicId(topic.topic_id), data.index)
                records = _records(data, context.api_version)
                if membership is None:
                    broker.produce(partition, records, append, acks=request.acks, request=context.request_bytes)
                else:
                    broker.produce_in_transaction(
                        partition,
                        records,
                        append,
                        acks=request.acks,
                        membership=membership,
                        request=context.request_bytes,
                    )
            except HeadwaterError as error:
                append.fail(error)
    reply.append_done()
    return reply


def _denial(request: ProduceRequest, id_of_request: str, guard: Guard) -> Refusal | None:
    """Why the client may not write the transactional batches of the request. Others need no right to the id."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES_LOW_BYTE
                and records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL
            ):
                return guard.denial(Operation.WRITE, transactional_id(id_of_request))
    return None


def _refuse_whole(request: ProduceRequest) -> Refusal | None:
    if request.acks not in (0, 1, ACKS_ALL):
        return Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: only 0, 1 and -1 (all) exist")
    return None


def _membership(transactional_id: str, context: Context) -> TransactionMembership:
    return TransactionMembership(
        TransactionalId(transactional_id),
        adds_partitions=context.api_version >= FIRST_VERSION_THAT_ADDS_PARTITIONS,
        knows_abortable=context.api_version >= FIRST_VERSION_WITH_ABORTABLE,
    )


def _topic_name(topic: TopicProduceData, context: Context) -> str:
    return context.broker.topics.existing_by_id(TopicId(topic.topic_id)).name


def _records(data: PartitionProduceData, version: int) -> memoryview:
    records: memoryview | None = data.records
    if records is None:
        raise Refusal(ErrorCode.INVALID_RECORD, "a produce request must hold one record batch for each partition")
    if version < FIRST_VERSION_WITH_ZSTD and _is_zstd(records):
        raise Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"produce version {version} may not carry zstd, only {FIRST_VERSION_WITH_ZSTD} and later",
        )
    return records


def _is_zstd(records: memoryview) -> bool:
    return len(records) > _ATTRIBUTES_LOW_BYTE and records[_ATTRIBUTES_LOW_BYTE] & _CODEC_MASK == Codec.ZSTD
