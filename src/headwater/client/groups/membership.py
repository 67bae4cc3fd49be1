"""A member's side of the next-generation group protocol (KIP-848): it joins, heartbeats, rebalances and leaves.

Law: a revoked partition is acknowledged only after the caller has stopped using it. There is no heartbeat thread: the
member stays in the group as long as `poll` is called more often than the session time-out.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import NamedTuple
from uuid import uuid4

from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import ClientError
from headwater.errors import ErrorCode
from headwater.ids import MemberId, TopicId, TopicName, TopicPartition
from headwater.protocol.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

REBALANCE_TIMEOUT_MS = 300_000
# Lower bound of the heartbeat interval that the coordinator chooses.
HEARTBEAT_INTERVAL_MS_MIN = 100

_JOINING = 0
_LEAVING = -1
_UNCHANGED = -1
# The group has removed this member. It may join again.
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})


class TopicIdPartition(NamedTuple):
    topic_id: TopicId
    partition: int


class Rebalance(NamedTuple):
    """What the caller must do, in this order: stop using `revoked`, start reading `assigned`, call `acknowledge`."""

    revoked: frozenset[TopicPartition]
    assigned: frozenset[TopicPartition]
    # The group removed the member. Other members may have the revoked partitions already, so commits are refused.
    is_lost: bool


class GroupMembership:
    def __init__(
        self,
        coordinator: GroupCoordinator,
        *,
        assignor: str | None = None,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    ) -> None:
        """The group waits `rebalance_timeout_ms` for the member to give up revoked partitions. `assignor` names an
        assignor of the broker, such as uniform or range; with None the broker chooses."""
        self.member_id = MemberId(str(uuid4()))
        self.epoch = _JOINING
        self._coordinator = coordinator
        self._clock = coordinator.cluster.clock
        self._assignor = assignor
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._topics: list[str] = []
        # None until one was set. The empty string then removes it, because null means unchanged in the request.
        self._regex: str | None = None
        self._heartbeat_at_ms = self._clock.monotonic_ms()
        self._was_heartbeat_sent = False
        # Whether the coordinator has confirmed the subscription, and the owned partitions. If an answer is lost, nobody
        # knows whether it got them, and the next heartbeat sends everything.
        self._is_subscription_confirmed = False
        self._is_owned_confirmed = False
        self._is_lost = False
        self._owned: frozenset[TopicIdPartition] = frozenset()
        self._target: frozenset[TopicIdPartition] = frozenset()
        self._names: dict[TopicId, TopicName] = {}

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self._named(self._owned)

    @property
    def is_subscribed(self) -> bool:
        return bool(self._topics or self._regex)

    def subscribe(self, topics: Collection[str] = (), *, regex: str | None = None) -> None:
        """Replace the subscription. The broker matches `regex`, which is in RE2 syntax."""
        self._topics = sorted(set(topics))
        self._regex = "" if regex is None and self._regex is not None else regex
        self._is_subscription_confirmed = False
        self.heartbeat_now()

    def heartbeat_now(self) -> None:
        """Make the next `poll` heartbeat, whatever the interval."""
        self._heartbeat_at_ms = self._clock.monotonic_ms()

    def until_heartbeat_ms(self) -> int:
        return max(self._heartbeat_at_ms - self._clock.monotonic_ms(), 0)

    def poll(self) -> Rebalance | None:
        """Heartbeat if it is due. A rebalance is returned by every poll until it is acknowledged."""
        if not self._is_lost and not self.until_heartbeat_ms():
            self._heartbeat()
        revoked, assigned = self._owned - self._target, self._known_target() - self._owned
        if not revoked and not assigned:
            return None
        return Rebalance(self._named(revoked), self._named(assigned), self._is_lost)

    def acknowledge(self) -> None:
        """Note that the caller has done what the last rebalance asks for. The next poll tells the coordinator."""
        self._owned = self._known_target()
        self._is_owned_confirmed = False
        self._is_lost = False
        self.heartbeat_now()

    def leave(self) -> None:
        """Leave the group, so that the other members need not wait for the session time-out. Errors are ignored: the
        time-out then removes the member."""
        if not self._was_heartbeat_sent:
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._coordinator.group_id, member_id=self.member_id, member_epoch=_LEAVING
        )
        with suppress(ClientError):
            self._coordinator.ask_once(
                request,
                ConsumerGroupHeartbeatResponse,
                lambda response: self._coordinator.check(response.error_code, response.error_message),
            )
        self._reset_epoch()
        self._owned = self._target
        self._was_heartbeat_sent = False

    # -- heartbeats

    def _heartbeat(self) -> None:
        try:
            self._coordinator.ask(self._request, ConsumerGroupHeartbeatResponse, self._read)
        except ClientError as error:
            if error.code not in _FENCED or self.epoch == _JOINING:
                raise
            self._reset_epoch()
            self._is_lost = bool(self._owned)
            self.heartbeat_now()
            return
        # The broker that is asked may not know a new topic yet. Then the lookup is repeated after the next heartbeat.
        unknown = {partition.topic_id for partition in self._target} - self._names.keys()
        if unknown:
            self._names.update(self._coordinator.cluster.topic_names(unknown))

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        is_full = not self._is_subscription_confirmed
        # Unconfirmed until the answer arrives: if it is lost, nobody knows what the coordinator has received.
        self._was_heartbeat_sent, self._is_subscription_confirmed = True, False
        return ConsumerGroupHeartbeatRequest(
            group_id=self._coordinator.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=self._rebalance_timeout_ms if is_full else _UNCHANGED,
            subscribed_topic_names=self._topics if is_full else None,
            subscribed_topic_regex=self._regex if is_full else None,
            server_assignor=self._assignor if is_full else None,
            topic_partitions=_pack(self._owned) if is_full or not self._is_owned_confirmed else None,
        )

    def _read(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self._coordinator.check(response.error_code, response.error_message)
        self.epoch = response.member_epoch
        self._is_subscription_confirmed = self._is_owned_confirmed = True
        interval_ms = max(response.heartbeat_interval_ms, HEARTBEAT_INTERVAL_MS_MIN)
        self._heartbeat_at_ms = self._clock.monotonic_ms() + interval_ms
        if response.assignment is not None:
            self._target = _unpack(response.assignment)

    def _reset_epoch(self) -> None:
        self.epoch = _JOINING
        self._is_subscription_confirmed = False
        self._target = frozenset()

    # -- partitions

    def _known_target(self) -> frozenset[TopicIdPartition]:
        return frozenset(partition for partition in self._target if partition.topic_id in self._names)

    def _named(self, partitions: Iterable[TopicIdPartition]) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(self._names[each.topic_id], each.partition) for each in partitions)


def _pack(partitions: Iterable[TopicIdPartition]) -> list[TopicPartitions]:
    indexes: dict[TopicId, list[int]] = {}
    for topic_id, index in sorted(partitions):
        indexes.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in indexes.items()]


def _unpack(assignment: Assignment) -> frozenset[TopicIdPartition]:
    return frozenset(
        TopicIdPartition(TopicId(topic.topic_id), index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    )
