"""Reads the partitions that a group gives to this member, from where the group left off, and commits how far it came.

Law: at least once. An offset is committed only after the record before it was processed, and a record counts as
processed when `poll` is called again, or when the caller says so.
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

# The coordinator knows more about this member than the member does; the next heartbeat tells.
_OUTDATED = frozenset(
    {
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)


class GroupConsumer:
    """`reset` says where to begin in a partition without a committed offset, or with one that is gone: EARLIEST or
    LATEST. Offsets are committed every `auto_commit_ms`, before partitions are given back, and on closing; None leaves
    all that to `commit`.

    `processed` is the next offset to process of each partition: what will be committed. Every poll moves it past what
    the one before gave; a caller that stops in between moves it itself.
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
        """The next offset to fetch of each partition that this member has."""
        return self._consumer.positions

    def subscribe(self, topics: Collection[str] = (), *, regex: str | None = None) -> None:
        """Replaces what was subscribed to before. `regex`, in RE2 syntax, is matched by the broker."""
        if not topics and not regex:
            raise ClientError("there is nothing to subscribe to: name topics or give a regular expression")
        self._membership.subscribe(topics, regex=regex)

    def poll(self) -> list[ConsumedRecord]:
        """The next records, or none if there is nothing new within `wait_ms_max`; also what keeps the member alive."""
        assert self._membership.is_subscribed, "subscribe comes before poll"
        self.processed.update(self._consumer.positions)
        self._rebalance()
        self._commit_in_time()
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
            self._pass_over_deleted_topics()
        except BaseException:
            # Some of what this round fetched may be lost with the error, so it is fetched again.
            self._consumer.positions = before
            raise
        return []

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commits these offsets, or past all records that polls have given so far."""
        if offsets is None:
            self.processed.update(self._consumer.positions)
            offsets = self.processed
        self._commit(offsets)

    def close(self) -> None:
        """Commits what is processed, and leaves the group."""
        try:
            if self._auto_commit_ms is not None:
                self._commit_processed()
        finally:
            self._membership.leave()
            self._let_go([*self._consumer.positions, *self.processed])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- partitions that come and go

    def _rebalance(self) -> None:
        change = self._membership.poll()
        if change is None:
            return
        # A commit that comes too early or too late waits for what the next heartbeat tells.
        may_commit = self._auto_commit_ms is not None and not change.is_lost
        if change.revoked and may_commit and not self._commit_processed():
            return
        self._let_go(change.revoked)
        try:
            self._take_up(change.assigned)
        except UnknownTopic:
            # It was deleted a moment ago, and is taken away again with one of the next heartbeats.
            return
        self._membership.acknowledge()

    def _take_up(self, partitions: Collection[TopicPartition]) -> None:
        if not partitions:
            return
        committed = fetch_offsets(self._coordinator, partitions, stable_only=True)
        positions = {partition: found.offset for partition, found in committed.items() if partition in partitions}
        fresh = [partition for partition in partitions if partition not in positions]
        reset = list_offsets(self._cluster, fresh, self._reset, committed_only=self._committed_only)
        self._committed.update(positions)
        self._consumer.positions.update(positions | reset)

    def _let_go(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            for known in (self._consumer.positions, self.processed, self._committed):
                known.pop(partition, None)

    def _pass_over_deleted_topics(self) -> None:
        held = [*self._consumer.positions, *self.processed]
        for topic in {partition.topic for partition in held}:
            self._cluster.forget([topic])
            try:
                self._cluster.topic(topic)
            except UnknownTopic:
                self._let_go(partition for partition in held if partition.topic == topic)

    # -- commits

    def _commit_in_time(self) -> None:
        now_ms = self._cluster.clock.monotonic_ms()
        if self._auto_commit_ms is not None and now_ms - self._committed_at_ms >= self._auto_commit_ms:
            self._commit_processed()
            self._committed_at_ms = now_ms

    def _commit_processed(self) -> bool:
        """Whether the coordinator took them."""
        try:
            self._commit(self.processed)
        except (Refused, UnknownGroup) as error:
            if error.code not in _OUTDATED:
                raise
            self._membership.heartbeat_now()
            return False
        except UnknownTopic:
            self._pass_over_deleted_topics()
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
