"""Reads the partitions that a group assigns to this member, from the committed offsets on, and commits its progress.

Law: at-least-once. An offset is committed only after the record before it was processed. A record counts as processed
when the caller polls again, commits, or moves `processed`.
"""

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Self

from headwater.client.cluster import Cluster
from headwater.client.consumer import WAIT_MS_MAX, ConsumedRecord, Consumer
from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import ClientError, OffsetOutOfRange, Refused, UnknownGroup, UnknownTopic
from headwater.client.groups.group_offsets import CommittedOffset, commit_offsets, fetch_offsets
from headwater.client.groups.membership import REBALANCE_TIMEOUT_MS, GroupMembership
from headwater.client.offsets import EARLIEST, list_offsets
from headwater.errors import ErrorCode
from headwater.ids import MemberId, TopicPartition

AUTO_COMMIT_MS = 5_000

# The member's id or epoch is stale. The next heartbeat tells the member what has changed.
_STALE_MEMBERSHIP = frozenset(
    {
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)


class GroupConsumer:
    """`reset` (EARLIEST or LATEST) says where to begin in a partition whose committed offset is missing or out of
    range. Offsets are committed every `auto_commit_ms`, before partitions are revoked, and on closing. With None the
    caller commits.

    `processed` holds the next offset to process of each partition: these offsets are committed. Every poll moves them
    past the records of the poll before. A caller that stops in the middle of those records sets `processed` itself.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        reset: int = EARLIEST,
        auto_commit_ms: int | None = AUTO_COMMIT_MS,
        committed_only: bool = False,
        assignor: str | None = None,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
        wait_ms_max: int = WAIT_MS_MAX,
    ) -> None:
        self.processed: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._reset = reset
        self._auto_commit_ms = auto_commit_ms
        self._committed_only = committed_only
        self._wait_ms_max = wait_ms_max
        self._coordinator = GroupCoordinator(cluster, group_id)
        self._membership = GroupMembership(
            self._coordinator, assignor=assignor, rebalance_timeout_ms=rebalance_timeout_ms
        )
        self._consumer = Consumer(cluster, {}, committed_only=committed_only, wait_ms_max=wait_ms_max)
        self._committed: dict[TopicPartition, int] = {}
        self._committed_at_ms = cluster.clock.monotonic_ms()

    @property
    def member_id(self) -> MemberId:
        return self._membership.member_id

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset to fetch of each partition that is assigned to this member."""
        return self._consumer.positions

    def subscribe(self, topics: Collection[str] = (), *, regex: str | None = None) -> None:
        """Replace the subscription. The broker matches `regex`, which is in RE2 syntax."""
        if not topics and not regex:
            raise ClientError("there is nothing to subscribe to: name topics or give a regular expression")
        self._membership.subscribe(topics, regex=regex)

    def poll(self) -> list[ConsumedRecord]:
        """Return the next records, or none if nothing new arrives within `wait_ms_max`. Polling also sends the
        heartbeats that keep the member in the group."""
        assert self._membership.is_subscribed, "subscribe comes before poll"
        self.processed.update(self._consumer.positions)
        self._rebalance()
        self._commit_if_due()
        if not self._consumer.positions:
            self._cluster.sleep(min(self._wait_ms_max, self._membership.until_heartbeat_ms()) / 1000)
            return []
        before = dict(self._consumer.positions)
        try:
            return self._consumer.poll()
        except OffsetOutOfRange as error:
            offset = error.earliest if self._reset == EARLIEST else error.latest
            self._consumer.positions = {**before, error.partition: offset}
        except UnknownTopic:
            self._consumer.positions = before
            self._drop_deleted_topics()
        except BaseException:
            # The error may have discarded records that this round fetched: fetch them again.
            self._consumer.positions = before
            raise
        return []

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit these offsets; without any, commit past all records that `poll` has returned."""
        if offsets is None:
            self.processed.update(self._consumer.positions)
            offsets = self.processed
        self._commit(offsets)

    def close(self) -> None:
        """Commit `processed` (with auto-commit), and leave the group."""
        try:
            if self._auto_commit_ms is not None:
                self._commit_processed()
        finally:
            self._membership.leave()
            self._drop_partitions([*self._consumer.positions, *self.processed])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- rebalances

    def _rebalance(self) -> None:
        change = self._membership.poll()
        if change is None:
            return
        may_commit = self._auto_commit_ms is not None and not change.is_lost
        if change.revoked and may_commit and not self._commit_processed():
            # The member's epoch is stale: acknowledge nothing before the next heartbeat tells the current state.
            return
        self._drop_partitions(change.revoked)
        try:
            self._add_partitions(change.assigned)
        except UnknownTopic:
            # The topic was just deleted. One of the next heartbeats revokes its partitions.
            return
        self._membership.acknowledge()

    def _add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        if not partitions:
            return
        committed = fetch_offsets(self._coordinator, partitions, stable_only=True)
        positions = {partition: found.offset for partition, found in committed.items() if partition in partitions}
        fresh = [partition for partition in partitions if partition not in positions]
        reset = list_offsets(self._cluster, fresh, self._reset, committed_only=self._committed_only)
        self._committed.update(positions)
        self._consumer.positions.update(positions | reset)

    def _drop_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            for known in (self._consumer.positions, self.processed, self._committed):
                known.pop(partition, None)

    def _drop_deleted_topics(self) -> None:
        held = [*self._consumer.positions, *self.processed]
        for topic in {partition.topic for partition in held}:
            self._cluster.forget([topic])
            try:
                self._cluster.topic(topic)
            except UnknownTopic:
                self._drop_partitions(partition for partition in held if partition.topic == topic)

    # -- commits

    def _commit_if_due(self) -> None:
        now_ms = self._cluster.clock.monotonic_ms()
        if self._auto_commit_ms is not None and now_ms - self._committed_at_ms >= self._auto_commit_ms:
            self._commit_processed()
            self._committed_at_ms = now_ms

    def _commit_processed(self) -> bool:
        """Commit `processed`. Return whether the coordinator accepted the offsets."""
        try:
            self._commit(self.processed)
        except (Refused, UnknownGroup) as error:
            if error.code not in _STALE_MEMBERSHIP:
                raise
            self._membership.heartbeat_now()
            return False
        except UnknownTopic:
            self._drop_deleted_topics()
            self._commit(self.processed)
        return True

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        changed = {
            partition: offset for partition, offset in offsets.items() if self._committed.get(partition) != offset
        }
        if not changed:
            return
        commit_offsets(
            self._coordinator,
            {partition: CommittedOffset(offset) for partition, offset in changed.items()},
            member_id=self._membership.member_id,
            epoch=self._membership.epoch,
        )
        self._committed.update(changed)
