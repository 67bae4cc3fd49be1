"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes; the answer tells only what
changed, too.

A session is bound to nothing but its id and epoch. Where there is no room for one more, clients get none and send
everything each time, which always works.
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
# Over all sessions: what a client names here is remembered for minutes.
PARTITIONS_MAX = 200_000

Topic: TypeAlias = str | UUID
Key: TypeAlias = tuple[Topic, int]


@dataclass(slots=True)
class SessionPartition:
    """What the client asks of a partition, and what it was last told about it."""

    topic: Topic
    index: int
    offset: int = 0
    bytes_max: int = 0
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def ask(self, asked: FetchPartition) -> None:
        self.offset = asked.fetch_offset
        self.bytes_max = asked.partition_max_bytes
        self.leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def has_news(self, told: PartitionData) -> bool:
        """Whether the answer must name this partition; remembers what it says."""
        has_news = (
            told.error_code != ErrorCode.NONE
            or (told.records is not None and len(told.records) > 0)
            or told.high_watermark != self.told_high_watermark
            or told.log_start_offset != self.told_log_start_offset
            or told.diverging_epoch.epoch != -1
        )
        self.told_high_watermark = told.high_watermark
        self.told_log_start_offset = told.log_start_offset
        if told.error_code != ErrorCode.NONE:
            # An error is told again for as long as it lasts.
            self.told_high_watermark = -1
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
        for topic, asked in _asked(request):
            key = (topic, asked.partition)
            partition = self.partitions.get(key)
            if partition is None:
                partition = self.partitions[key] = SessionPartition(topic, asked.partition)
            partition.ask(asked)

    def answered(self, keys_with_records: list[Key]) -> None:
        """Those that were served go last, so that under a byte limit every partition gets its turn."""
        for key in keys_with_records:
            partition = self.partitions.pop(key, None)
            if partition is not None:
                self.partitions[key] = partition


class Fetching(NamedTuple):
    """The partitions that one request is about, and the session it belongs to, if any."""

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

    def begin(self, request: FetchRequest, *, uses_topic_ids: bool) -> Fetching:
        """Applies the request to its session. A session that is unknown or out of step is a Refusal."""
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
            return Fetching(None, partitions, is_incremental=False)
        self._remember(session)
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else 1
        session.used_ms = self._clock.monotonic_ms()
        return Fetching(session, partitions, is_incremental=True)

    def _begin_full(self, request: FetchRequest, uses_topic_ids: bool, *, wants_session: bool) -> Fetching:
        session = Session(NO_SESSION, self._clock.monotonic_ms(), uses_topic_ids=uses_topic_ids)
        session.update(request)
        partitions = list(session.partitions.values())
        if not wants_session or not partitions or not self._make_room(len(partitions), session.used_ms):
            return Fetching(None, partitions, is_incremental=False)
        while session.id == NO_SESSION or session.id in self._sessions:
            # Not to be guessed: whoever knows the id of a session can disturb it.
            session.id = int.from_bytes(os.urandom(4)) & ID_MASK
        self._remember(session)
        return Fetching(session, partitions, is_incremental=False)

    def _make_room(self, partition_count: int, now_ms: int) -> bool:
        while len(self._sessions) >= self._slots or self._partition_count + partition_count > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < EVICTION_MS:
                return False
            self._forget(oldest.id)
        return True

    def _remember(self, session: Session) -> None:
        """As the one that was used last."""
        self._sessions[session.id] = session
        self._partition_count += len(session.partitions)

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)


def _asked(request: FetchRequest) -> Iterator[tuple[Topic, FetchPartition]]:
    for topic in request.topics:
        name = _topic_of(topic)
        for partition in topic.partitions:
            yield name, partition


def _topic_of(topic: FetchTopic | ForgottenTopic) -> Topic:
    """By name up to version 12, by id from 13: whichever the version carries is set."""
    return topic.topic or topic.topic_id
