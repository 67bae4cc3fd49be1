"""Receives records of a share group in one request and settles them in another, without being a member of the group.

    consumer = QueueConsumer(cluster, "billing", ["orders"])
    for record in consumer.receive(10, wait_ms=5000):
        consumer.ack(record.receipt)

A received record is held for the client until it is settled or its lock runs out, whatever becomes of the connection: a
receipt may be passed on, and settled by another process. Only Headwater's brokers know receipts.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.client.cluster import Cluster
from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import ClientError, Refused
from headwater.errors import ErrorCode
from headwater.protocol.batches.records import Headers
from headwater.protocol.messages.shares.describe_queue import DescribeQueueRequest, DescribeQueueResponse
from headwater.protocol.messages.shares.peek_records import PeekRecordsRequest, PeekRecordsResponse
from headwater.protocol.messages.shares.receive_records import (
    RESET_DEFAULT,
    RESET_EARLIEST,
    RESET_LATEST,
    QueueHeader,
    ReceiveRecordsRequest,
    ReceiveRecordsResponse,
)
from headwater.protocol.messages.shares.settle_records import (
    Settlement,
    SettleRecordsRequest,
    SettleRecordsResponse,
)

EARLIEST, LATEST = "earliest", "latest"
BYTES_MAX = 1 << 20

_RESETS = {None: RESET_DEFAULT, EARLIEST: RESET_EARLIEST, LATEST: RESET_LATEST}
# By the acknowledge types of Kafka's protocol.
_ACCEPT, _RELEASE, _REJECT, _RENEW = 1, 2, 3, 4
_BY_SETTING = -1
_STATES = {-2: "pending", -1: "waiting", 0: "available", 1: "held"}


class ReceivedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    delivery_count: int
    receipt: str


class PeekedRecord(NamedTuple):
    """`state` is available, held (by a client), pending (settled in a transaction that is open) or waiting (for its
    next delivery)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    state: str
    delivery_count: int


class QueueStats(NamedTuple):
    """How far a group is in one partition. `backlog` is what it is not done with, `held` and `waiting` are parts of it,
    and `oldest_age_ms` is for how long the oldest of it has been in the topic (None if there is none). Deliveries,
    accepted and archived records (rejected, or delivered too often) are counted since the broker started."""

    topic: str
    partition: int
    start: int
    end: int
    backlog: int
    held: int
    waiting: int
    oldest_age_ms: int | None
    deliveries: int
    accepted: int
    archived: int


class NotSettled(ClientError):
    """Some receipts were refused; the others of the call count. `refusals` tells why, by receipt."""

    def __init__(self, refusals: Mapping[str, Refused], count: int) -> None:
        first = next(iter(refusals.values()))
        super().__init__(str(first) if count == 1 else f"{len(refusals)} of {count} receipts were refused: {first}")
        self.code = first.code
        self.refusals = refusals


class QueueConsumer:
    """`reset` says where the group begins in a topic that is new to it, earliest or latest, unless the group has a
    setting of its own (share.auto.offset.reset). With None the setting's default counts, which is latest."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Sequence[str], *, reset: str | None = EARLIEST) -> None:
        if reset not in _RESETS:
            raise ValueError(f"reset is {EARLIEST}, {LATEST} or None, not {reset!r}")
        self._timeout_ms = cluster.timeout_ms
        self._coordinator = GroupCoordinator(cluster, group_id)
        self._topics = list(topics)
        self._reset = reset

    @property
    def group_id(self) -> str:
        return self._coordinator.group_id

    def receive(
        self,
        records_max: int = 1,
        *,
        wait_ms: int = 0,
        lock_duration_ms: int | None = None,
        bytes_max: int = BYTES_MAX,
    ) -> list[ReceivedRecord]:
        """Return the next records, or none if none come within `wait_ms`. Nobody else is given them for
        `lock_duration_ms` (None: as the group's setting says)."""
        request = ReceiveRecordsRequest(
            group_id=self._coordinator.group_id,
            topics=self._topics,
            max_records=records_max,
            max_bytes=bytes_max,
            max_wait_ms=wait_ms,
            lock_duration_ms=_BY_SETTING if lock_duration_ms is None else lock_duration_ms,
            reset=_RESETS[self._reset],
        )

        def read(response: ReceiveRecordsResponse) -> list[ReceivedRecord]:
            self._coordinator.check(response.error_code, response.error_message)
            return [
                ReceivedRecord(
                    each.topic,
                    each.partition,
                    each.offset,
                    each.timestamp_ms,
                    each.key,
                    each.value,
                    _headers(each.headers),
                    each.delivery_count,
                    each.receipt,
                )
                for each in response.records
            ]

        return self._coordinator.ask(request, ReceiveRecordsResponse, read, timeout_ms=wait_ms + self._timeout_ms)

    def ack(self, *receipts: str) -> None:
        """The records are done with. Raises NotSettled if some receipts hold their records no longer."""
        self._settle(receipts, _ACCEPT)

    def nack(self, *receipts: str, delay_ms: int | None = None) -> None:
        """Give the records back, for another delivery after `delay_ms` (None: as the group's back-off says)."""
        self._settle(receipts, _RELEASE, delay_ms)

    def reject(self, *receipts: str) -> None:
        """The records are hopeless: they leave the queue."""
        self._settle(receipts, _REJECT)

    def extend(self, *receipts: str, lock_duration_ms: int | None = None) -> None:
        """Hold the records for so long from now on (None: as the group's setting says)."""
        self._settle(receipts, _RENEW, lock_duration_ms)

    def _settle(self, receipts: Sequence[str], kind: int, duration_ms: int | None = None) -> None:
        duration = _BY_SETTING if duration_ms is None else duration_ms
        request = SettleRecordsRequest(
            group_id=self._coordinator.group_id,
            settlements=[Settlement(receipt=each, type=kind, duration_ms=duration) for each in receipts],
        )

        def read(response: SettleRecordsResponse) -> dict[str, Refused]:
            self._coordinator.check(response.error_code, response.error_message)
            return {
                receipt: Refused(result.error_code, "receipt", result.error_message)
                for receipt, result in zip(receipts, response.results, strict=True)
                if result.error_code != ErrorCode.NONE
            }

        # Once: after a lost answer a second request would be refused, although the first may have counted.
        refusals = self._coordinator.ask_once(request, SettleRecordsResponse, read)
        if refusals:
            raise NotSettled(refusals, len(receipts))

    def peek(self, records_max: int = 1, *, bytes_max: int = BYTES_MAX) -> list[PeekedRecord]:
        """Return the first records that the group is not done with, and take none. They may be held by others."""
        request = PeekRecordsRequest(
            group_id=self._coordinator.group_id, topics=self._topics, max_records=records_max, max_bytes=bytes_max
        )

        def read(response: PeekRecordsResponse) -> list[PeekedRecord]:
            self._coordinator.check(response.error_code, response.error_message)
            return [
                PeekedRecord(
                    each.topic,
                    each.partition,
                    each.offset,
                    each.timestamp_ms,
                    each.key,
                    each.value,
                    _headers(each.headers),
                    _STATES.get(each.state, "unknown"),
                    each.delivery_count,
                )
                for each in response.records
            ]

        return self._coordinator.ask(request, PeekRecordsResponse, read)

    def stats(self) -> list[QueueStats]:
        return queue_stats(self._coordinator, self._topics)


def queue_stats(coordinator: GroupCoordinator, topics: Sequence[str] | None = None) -> list[QueueStats]:
    """How far a share group is in the partitions of these topics (None: of all) that it has begun with."""
    request = DescribeQueueRequest(group_id=coordinator.group_id, topics=None if topics is None else list(topics))

    def read(response: DescribeQueueResponse) -> list[QueueStats]:
        coordinator.check(response.error_code, response.error_message)
        return [
            QueueStats(
                each.topic,
                each.partition,
                each.start_offset,
                each.end_offset,
                each.backlog,
                each.held,
                each.waiting,
                None if each.oldest_age_ms < 0 else each.oldest_age_ms,
                each.deliveries,
                each.accepted,
                each.archived,
            )
            for each in response.partitions
        ]

    return coordinator.ask(request, DescribeQueueResponse, read)


def _headers(headers: Sequence[QueueHeader]) -> Headers:
    return tuple((each.name, each.value) for each in headers)
