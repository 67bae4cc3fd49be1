"""Fetch (key 1), v4-18: reads records, with fetch sessions and the long poll; records are sent as ranges of log files.

v5 adds the log start offset, v7 sessions, v9 leader epochs, v11 the client's rack, v12 is flexible and adds diverging
epochs (KIP-595), v13 names topics by id, v15 moves the replica into a tag. Followers are refused: there are none."""

from collections.abc import Sequence
from uuid import UUID

from headwater.broker.pending import Fault, Pending
from headwater.broker.reads.fetch import Fetch, PartitionFetch, PartitionRead
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.fetch_sessions import NO_SESSION, FetchPlan, Key, SessionPartition, Topic
from headwater.protocol.messages.records.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

REQUEST = FetchRequest

FIRST_VERSION_WITH_TOPIC_IDS = 13
READ_COMMITTED = 1


class _FetchReply(Pending[FetchResponse]):
    """Waits for the broker's fetch, and adds the partitions that needed no read."""

    __slots__ = ("_answers", "_fetch", "_plan")

    is_abandonable = True

    def __init__(self, plan: FetchPlan, answers: dict[int, PartitionData], fetch: Fetch) -> None:
        Pending.__init__(self)  # `super()` costs more than what it finds
        self._plan = plan
        self._answers = answers
        self._fetch: Fetch | None = fetch
        fetch.then(self.respond)

    def abandon(self) -> None:
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            # Break the reference cycle: it would keep files of deleted topics open until the garbage collector runs.
            fetch.abandon()

    def respond(self, reads: Sequence[PartitionRead] | Fault) -> None:
        if isinstance(reads, Fault):
            self.fail(reads.cause)
            return
        try:
            response = self._response(reads)
        except Exception as error:
            self.fail(error)
            return
        self.resolve(response)

    def _response(self, reads: Sequence[PartitionRead]) -> FetchResponse:
        read = iter(reads)
        replies: list[tuple[SessionPartition, PartitionData]] = []
        for position, requested in enumerate(self._plan.partitions):
            data = self._answers.get(position) or _partition_data(requested.index, next(read))
            replies.append((requested, data))
        return _response(self._plan, replies)


def handle(request: FetchRequest, context: Context) -> FetchResponse | Pending[FetchResponse]:
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        # Only followers fetch as replicas: they may read records that consumers must not see yet.
        return _refuse_replica(request)
    try:
        plan = context.fetch_sessions.begin(request, uses_topic_ids=context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS)
    except HeadwaterError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    broker, guard = context.broker, context.guard
    fetches: list[PartitionFetch] = []
    answers: dict[int, PartitionData] = {}
    for position, requested in enumerate(plan.partitions):
        try:
            if not guard.is_open:
                _check_reads(requested.topic, context)
            partition = (
                broker.partition_by_id(TopicId(requested.topic), requested.index)
                if isinstance(requested.topic, UUID)
                else broker.partition(requested.topic, requested.index)
            )
            partition.check_leader_epoch(requested.leader_epoch)
            if requested.last_fetched_epoch >= 0:
                end = partition.divergence(requested.last_fetched_epoch, requested.offset)
                if end is not None:
                    answers[position] = PartitionData(
                        partition_index=requested.index,
                        high_watermark=partition.high_watermark,
                        diverging_epoch=EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset),
                        records=b"",
                    )
                    continue
        except HeadwaterError as error:
            answers[position] = _failed(requested.index, _code(error, context.api_version))
            continue
        fetches.append(PartitionFetch(partition, requested.offset, requested.bytes_max))
    fetch = broker.fetch(
        fetches,
        bytes_min=request.min_bytes,
        bytes_max=request.max_bytes,
        # An error is sent at once.
        wait_ms=0 if answers else request.max_wait_ms,
        committed_only=request.isolation_level == READ_COMMITTED,
    )
    return _FetchReply(plan, answers, fetch)


def _check_reads(topic: Topic, context: Context) -> None:
    """Before anything about a name: an error must not tell whether the topic exists."""
    name = context.broker.topics.existing_by_id(TopicId(topic)).name if isinstance(topic, UUID) else topic
    if not context.guard.reads(name):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no right to read topic '{name}'")


def _refuse_replica(request: FetchRequest) -> FetchResponse:
    """Refuse each partition, because versions before sessions have no error for the whole response."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[_failed(requested.partition, code) for requested in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _code(error: HeadwaterError, version: int) -> ErrorCode:
    """A topic without a name looks like one that is named by its id."""
    if error.code is ErrorCode.UNKNOWN_TOPIC_ID and version < FIRST_VERSION_WITH_TOPIC_IDS:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return error.code


def _failed(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1, records=b"")


def _partition_data(index: int, read: PartitionRead) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None
        if read.aborted is None
        else [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in read.aborted
        ],
        records=read.records if read.records is not None else b"",
    )


def _response(plan: FetchPlan, replies: Sequence[tuple[SessionPartition, PartitionData]]) -> FetchResponse:
    session = plan.session
    by_topic: dict[Topic, list[PartitionData]] = {}
    served: list[Key] = []
    for requested, data in replies:
        has_news = requested.has_news(data)
        if has_news or not plan.is_incremental:
            by_topic.setdefault(requested.topic, []).append(data)
        if data.records:
            served.append((requested.topic, requested.index))
    if session is not None:
        session.rotate(served)
    return FetchResponse(
        session_id=session.id if session is not None else NO_SESSION,
        responses=[
            FetchableTopicResponse(topic_id=topic, partitions=partitions)
            if isinstance(topic, UUID)
            else FetchableTopicResponse(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
