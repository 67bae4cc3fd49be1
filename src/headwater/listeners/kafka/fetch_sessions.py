"""Fetch sessions (KIP-227): a client names its partitions once and then only changes; so do the responses.

A session is identified by its id and epoch alone, not by its connection. When there is no room for another session, the
client gets none and names all partitions in each request, which always works.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from headwater.clock import Clock
from headwater.errors import ErrorCode, Refusal
from headwater.protocol.messages.records.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EPOCH_MAX = 2**31 - 1
ID_MASK = 2**31 - 1
# A session that was used more recently than this is not evicted for a new one.
EVICTION_MS = 120_000
# Over all sessions. Bounded, because the partitions that a client names stay in memory for minutes.
PARTITIONS_MAX = 200_000

Topic: TypeAlias = str | UUID
Key: TypeAlias = tuple[Topic, int]


@dataclass(slots=True, eq=False)
class SessionPartition:
    """What the client asks of a partition, and what the last response said about it."""

    topic: Topic
    index: int
    offset: int = 0
    bytes_max: int = 0
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1

    def update(self, requested: FetchPartition) -> None:
        self.offset = requested.fetch_offset
        self.bytes_max = requested.partition_max_bytes
        self.leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental response must contain this partition. Remembers `data` as sent."""
        has_news = (
            data.error_code != ErrorCode.NONE
            or (data.records is not None and len(data.records) > 0)
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start_offset
            or data.diverging_epoch.epoch != -1
        )
        self.sent_high_watermark = data.high_watermark
        self.sent_log_start_offset = data.log_start_offset
        if data.error_code != ErrorCode.NONE:
            # An error is sent again for as long as it lasts.
            self.sent_high_watermark = -1
        return has_news


class Session:
    __slots__ = ("epoch", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, now_ms: int, *, uses_topic_ids: bool) -> None:
        self.id = session_id
        self.epoch = 1
        self.used_ms = now_ms
        self.uses_topic_ids = uses_topic_ids
        self.partitions: dict[Key, SessionPartition] = {}

    def update(self, request: FetchRequest) -> None:
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self.partitions.pop((_topic_of(forgotten), index), None)
        for topic, requested in _requested_partitions(request):
            key = (topic, requested.partition)
            partition = self.partitions.get(key)
            if partition is None:
                partition = self.partitions[key] = SessionPartition(topic, requested.partition)
            partition.update(requested)

    def rotate(self, keys_with_records: list[Key]) -> None:
        """Move partitions that were served to the end, so that none of them starves under a byte limit."""
        for key in keys_with_records:
            partition = self.partitions.pop(key, None)
            if partition is not None:
                self.partitions[key] = partition


class FetchPlan(NamedTuple):
    """The partitions that one request reads, and its session, if it has one."""

    session: Session | None
    partitions: list[SessionPartition]
    is_incremental: bool


class FetchSessions:
    def __init__(self, slots: int, clock: Clock) -> None:
        self._slots = slots
        self._clock = clock
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, *, uses_topic_ids: bool) -> FetchPlan:
        """Apply the request to its session. Refuses a session id that is unknown and an epoch that is out of step."""
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._forget(request.session_id)
            return self._begin_full(request, uses_topic_ids, wants_session=epoch == INITIAL_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {request.session_id}")
        if session.epoch != epoch:
            raise Refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"fetch session epoch is {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise Refusal(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "a fetch session names topics by name or by id, not by both"
            )
        self._forget(session.id)
        session.update(request)
        partitions = list(session.partitions.values())
        if not partitions or self._partition_count + len(partitions) > PARTITIONS_MAX:
            return FetchPlan(None, partitions, is_incremental=False)
        self._remember(session)
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else 1
        session.used_ms = self._clock.monotonic_ms()
        return FetchPlan(session, partitions, is_incremental=True)

    def _begin_full(self, request: FetchRequest, uses_topic_ids: bool, *, wants_session: bool) -> FetchPlan:
        session = Session(NO_SESSION, self._clock.monotonic_ms(), uses_topic_ids=uses_topic_ids)
        session.update(request)
        partitions = list(session.partitions.values())
        if not wants_session or not partitions or not self._make_room(len(partitions), session.used_ms):
            return FetchPlan(None, partitions, is_incremental=False)
        while session.id == NO_SESSION or session.id in self._sessions:
            # Random: a client that guessed the id of a session could disturb it.
            session.id = int.from_bytes(os.urandom(4)) & ID_MASK
        self._remember(session)
        return FetchPlan(session, partitions, is_incremental=False)

    def _make_room(self, partition_count: int, now_ms: int) -> bool:
        while len(self._sessions) >= self._slots or self._partition_count + partition_count > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < EVICTION_MS:
                return False
            self._forget(oldest.id)
        return True

    def _remember(self, session: Session) -> None:
        """Insert the session as the most recently used one (LRU order)."""
        self._sessions[session.id] = session
        self._partition_count += len(session.partitions)

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)


def _requested_partitions(request: FetchRequest) -> Iterator[tuple[Topic, FetchPartition]]:
    for topic in request.topics:
        name = _topic_of(topic)
        for partition in topic.partitions:
            yield name, partition


def _topic_of(topic: FetchTopic | ForgottenTopic) -> Topic:
    """The name up to version 12, the id from 13 on: only the one that the version carries is set."""
    return topic.topic or topic.topic_id
