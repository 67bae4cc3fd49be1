"""Fetch (key 1): sessions, the long poll, and byte ranges of the log that are sent as they are."""

from collections.abc import Sequence
from uuid import UUID

from headwater.broker.pending import Pending
from headwater.broker.reads.fetch import Fetch, PartitionFetch, PartitionRead
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import TopicId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.fetch_sessions import NO_SESSION, Fetching, Key, SessionPartition, Topic
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
    """Waits for the broker's fetch, and adds the answers that needed no reading."""

    __slots__ = ("_answers", "_fetch", "_fetching")

    is_abandonable = True

    def __init__(self, fetching: Fetching, answers: dict[int, PartitionData], fetch: Fetch) -> None:
        super().__init__()
        self._fetching = fetching
        self._answers = answers
        self._fetch: Fetch | None = fetch
        fetch.then(self.respond)

    def abandon(self) -> None:
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            # Break the reference cycle: it would keep files of deleted topics open until the garbage collector runs.
            fetch.abandon()

    def respond(self, reads: Sequence[PartitionRead]) -> None:
        read = iter(reads)
        told: list[tuple[SessionPartition, PartitionData]] = []
        for position, asked in enumerate(self._fetching.partitions):
            data = self._answers.get(position) or _partition_data(asked.index, next(read))
            told.append((asked, data))
        self.resolve(_response(self._fetching, told))


def handle(request: FetchRequest, context: Context) -> FetchResponse | Pending[FetchResponse]:
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        # Only brokers of a cluster fetch as replicas, and they may read what consumers must not see yet.
        return _refuse_replica(request)
    try:
        fetching = context.fetch_sessions.begin(
            request, uses_topic_ids=context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        )
    except HeadwaterError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    broker = context.broker
    fetches: list[PartitionFetch] = []
    answers: dict[int, PartitionData] = {}
    for position, asked in enumerate(fetching.partitions):
        try:
            partition = (
                broker.partition_by_id(TopicId(asked.topic), asked.index)
                if isinstance(asked.topic, UUID)
                else broker.partition(asked.topic, asked.index)
            )
            partition.check_leader_epoch(asked.leader_epoch)
            if asked.last_fetched_epoch >= 0:
                end = partition.divergence(asked.last_fetched_epoch, asked.offset)
                if end is not None:
                    answers[position] = PartitionData(
                        partition_index=asked.index,
                        high_watermark=partition.high_watermark,
                        diverging_epoch=EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset),
                        records=b"",
                    )
                    continue
        except HeadwaterError as error:
            answers[position] = _failed(asked.index, error.code)
            continue
        fetches.append(PartitionFetch(partition, asked.offset, asked.bytes_max))
    fetch = broker.fetch(
        fetches,
        bytes_min=request.min_bytes,
        bytes_max=request.max_bytes,
        # An error is told at once.
        wait_ms=0 if answers else request.max_wait_ms,
        committed_only=request.isolation_level == READ_COMMITTED,
    )
    return _FetchReply(fetching, answers, fetch)


def _refuse_replica(request: FetchRequest) -> FetchResponse:
    """For each partition, because the versions before sessions have no error for the whole."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[_failed(asked.partition, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


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


def _response(fetching: Fetching, told: Sequence[tuple[SessionPartition, PartitionData]]) -> FetchResponse:
    session = fetching.session
    by_topic: dict[Topic, list[PartitionData]] = {}
    served: list[Key] = []
    for asked, data in told:
        has_news = asked.has_news(data)
        if has_news or not fetching.is_incremental:
            by_topic.setdefault(asked.topic, []).append(data)
        if data.records:
            served.append((asked.topic, asked.index))
    if session is not None:
        session.answered(served)
    return FetchResponse(
        session_id=session.id if session is not None else NO_SESSION,
        responses=[
            FetchableTopicResponse(topic_id=topic, partitions=partitions)
            if isinstance(topic, UUID)
            else FetchableTopicResponse(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
