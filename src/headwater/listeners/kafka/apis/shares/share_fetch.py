"""ShareFetch (key 78), v1-2: gives records of a share group to one of its members, and takes acknowledgements along.

v2 adds the strict limit of records (KIP-1206) and renewals (KIP-1222), which give no records. The first request of a
session may not acknowledge; the last one only acknowledges, and gives back what the member still holds."""

from collections.abc import Mapping, Sequence

from headwater.broker.pending import Pending
from headwater.broker.shares.share_fetch import SharedPartition, ShareFetch, ShareFetchLimits, ShareRead
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, MemberId, TopicId
from headwater.listeners.kafka.apis.shares.acknowledgements import AcknowledgementOutcomes, check_reads, said_in
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, Key, ShareSession, check_names
from headwater.protocol.messages.shares.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from headwater.security.acl import Operation, group

REQUEST = ShareFetchRequest

STRICT_RECORD_LIMIT = 1


class _Reply(Pending[ShareFetchResponse]):
    """Waits for the acknowledgements and the records."""

    __slots__ = ("_acknowledged", "_errors", "_fetch", "_lock_duration_ms", "_reads", "_session", "_shows_all")

    is_abandonable = True

    def __init__(
        self,
        acknowledgements: AcknowledgementOutcomes,
        fetch: ShareFetch | None,
        session: ShareSession | None,
        errors: Mapping[Key, HeadwaterError],
        *,
        shows_all: bool,
        lock_duration_ms: int,
    ) -> None:
        super().__init__()
        self._acknowledged: Mapping[Key, HeadwaterError | None] | None = None
        self._reads: Sequence[ShareRead] | None = None
        self._session = session
        self._errors = errors
        self._shows_all = shows_all
        self._lock_duration_ms = lock_duration_ms
        self._fetch = fetch
        acknowledgements.then(self._told)
        if fetch is None:
            self._read([])
        else:
            fetch.then(self._read)

    def abandon(self) -> None:
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            fetch.abandon()

    def _told(self, outcomes: Mapping[Key, HeadwaterError | None]) -> None:
        self._acknowledged = outcomes
        self._respond()

    def _read(self, reads: Sequence[ShareRead]) -> None:
        self._reads = reads
        self._respond()

    def _respond(self) -> None:
        if self._acknowledged is None or self._reads is None or self.is_done:
            return
        acknowledged = self._acknowledged
        shown: dict[Key, PartitionData] = {}
        for key, error in self._errors.items():
            shown[key] = _partition(key, error, acknowledged.get(key))
        for read in self._reads:
            key = read.wanted.id.topic_id, read.wanted.id.partition
            if self._shows_all or read.acquired or read.error is not None:
                shown[key] = _partition(key, read.error, acknowledged.get(key), read)
        if self._session is not None:
            self._session.rotate([key for key, data in shown.items() if data.acquired_records])
        for key, refusal in acknowledged.items():
            if key not in shown:
                shown[key] = _partition(key, None, refusal)
        by_topic: dict[TopicId, list[PartitionData]] = {}
        for (topic_id, _), data in shown.items():
            by_topic.setdefault(TopicId(topic_id), []).append(data)
        self._fetch = None
        self.resolve(
            ShareFetchResponse(
                acquisition_lock_timeout_ms=self._lock_duration_ms,
                responses=[
                    ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
                    for topic_id, partitions in by_topic.items()
                ],
                node_endpoints=[],
            )
        )


def handle(request: ShareFetchRequest, context: Context) -> ShareFetchResponse | Pending[ShareFetchResponse]:
    broker = context.broker
    said = said_in(request.topics)
    epoch = request.share_session_epoch
    try:
        group_id, member_id = check_names(request.group_id, request.member_id)
        context.guard.check(Operation.READ, group(group_id))
        if epoch == INITIAL_EPOCH and said:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the first fetch of a share session acknowledges nothing")
        session = _session(request, group_id, member_id, context)
    except HeadwaterError as refusal:
        return ShareFetchResponse(error_code=refusal.code, error_message=str(refusal), responses=[], node_endpoints=[])
    acknowledgements = AcknowledgementOutcomes(said, group_id, member_id, context, is_renewal=request.is_renew_ack)
    lock_duration_ms = broker.shares.lock_duration_ms(group_id)
    if epoch == FINAL_EPOCH or request.is_renew_ack:
        if epoch == FINAL_EPOCH:
            context.share_sessions.end(session)
        return _Reply(acknowledgements, None, None, {}, shows_all=False, lock_duration_ms=lock_duration_ms)
    wanted: list[SharedPartition] = []
    errors: dict[Key, HeadwaterError] = {}
    for topic_id, index in session.partitions:
        try:
            check_reads(TopicId(topic_id), context)
            partition = broker.partition_by_id(TopicId(topic_id), index)
        except HeadwaterError as refusal:
            errors[topic_id, index] = refusal
            continue
        wanted.append(SharedPartition(SharePartitionId(group_id, TopicId(topic_id), index), partition))
    limits = ShareFetchLimits(
        bytes_min=request.min_bytes,
        bytes_max=min(max(request.max_bytes, 0), broker.config.fetch_max_bytes),
        records_max=request.max_records,
        is_strict=request.share_acquire_mode == STRICT_RECORD_LIMIT,
        # An error is sent at once.
        wait_ms=0 if errors else request.max_wait_ms,
        committed_only=broker.shares.is_committed_only(group_id),
    )
    fetch = ShareFetch(broker.shares, member_id, wanted, limits)
    return _Reply(
        acknowledgements, fetch, session, errors, shows_all=epoch == INITIAL_EPOCH, lock_duration_ms=lock_duration_ms
    )


def _session(request: ShareFetchRequest, group_id: GroupId, member_id: MemberId, context: Context) -> ShareSession:
    sessions, epoch = context.share_sessions, request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        session = sessions.open(group_id, member_id, context.link)
    else:
        session = sessions.existing(group_id, member_id, epoch, context.link)
    if epoch != FINAL_EPOCH:
        added = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
        forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        sessions.change(session, added, forgotten)
    return session


def _partition(
    key: Key, error: HeadwaterError | None, refusal: HeadwaterError | None, read: ShareRead | None = None
) -> PartitionData:
    """`refusal` is the outcome of the acknowledgements."""
    return PartitionData(
        partition_index=key[1],
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else str(error),
        acknowledge_error_code=ErrorCode.NONE if refusal is None else refusal.code,
        acknowledge_error_message=None if refusal is None else str(refusal),
        current_leader=LeaderIdAndEpoch(),
        records=b"" if read is None or read.records is None else read.records,
        acquired_records=[]
        if read is None
        else [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in read.acquired
        ],
    )
