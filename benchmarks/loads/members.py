"""Members of a group in either protocol, reduced to their requests and the partitions that they are assigned.

Law: one request at a time; its answer decides what comes next, and a fleet says when a heartbeat is due.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from benchmarks.loads import frames
from headwater.client.errors import check
from headwater.errors import ErrorCode
from headwater.ids import TopicName
from headwater.protocol.consumer_protocol import Subscription, read_assignment, write_assignment, write_subscription
from headwater.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headwater.protocol.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headwater.protocol.messages.groups.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
CONSUMER_HEARTBEAT_VERSION = 1
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
JOIN_EPOCH, LEAVE_EPOCH = 0, -1
REBALANCE_TIMEOUT_MS = 60_000
RECEIVE_BYTES = 256 * 1024
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class GroupPlan:
    address: str
    group_id: str
    topic: str
    partitions: int
    heartbeat_interval_ms: int
    session_timeout_ms: int


class Member(ABC):
    def __init__(self, plan: GroupPlan) -> None:
        self.plan = plan
        self.connection = frames.connect(plan.address)
        # A fleet reads only readable sockets, and a time-out would cost a system call each time.
        self.connection.setblocking(True)
        self.id = ""
        self.owned: frozenset[int] = frozenset()
        # When the next heartbeat is due; infinite while a request is in flight.
        self.due = NEVER
        self.sent = self.answered = time.monotonic()
        # Since `begin`: what it had to give up, the longest time without an answer, and how long it merely waited for
        # its next heartbeat to be due.
        self.lost: set[int] = set()
        self.longest_gap_s = 0.0
        self.waited_s = 0.0
        self._rested = NEVER
        self._received = bytearray()
        self._then: Callable[[bytearray], None] = lambda _: None

    @abstractmethod
    def join(self) -> None: ...

    @abstractmethod
    def heartbeat(self) -> None: ...

    @abstractmethod
    def heartbeat_frame(self) -> bytes:
        """The heartbeat request of a member in a stable group."""

    @abstractmethod
    def leave(self) -> None: ...

    @staticmethod
    @abstractmethod
    def group_waited_s(members: Iterable["Member"], last: "Member") -> float:
        """How much later the last member had its partitions because heartbeats were not due yet."""

    @property
    def is_resting(self) -> bool:
        return self._rested < NEVER

    def begin(self, began: float) -> None:
        """Start measuring this member."""
        self.lost.clear()
        self.longest_gap_s = self.waited_s = 0.0
        if self.is_resting:
            self._rested = began

    def receive(self) -> None:
        """Receive the available bytes, and handle a complete response."""
        chunk = self.connection.recv(RECEIVE_BYTES)
        if not chunk:
            raise ConnectionError("the broker closed the connection of a member")
        self._received += chunk
        size = frames.SIZE.size
        if len(self._received) < size or len(self._received) < size + frames.SIZE.unpack_from(self._received)[0]:
            return
        response, self._received = self._received[size:], bytearray()
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self.answered)
        self.answered = now
        self._then(response)

    def _send(self, frame: bytes, then: Callable[[bytearray], None]) -> None:
        self.sent = time.monotonic()
        if self.is_resting:
            self.waited_s += max(0.0, self.sent - self._rested)
        self.due = self._rested = NEVER
        self._then = then
        self.connection.sendall(frame)

    def _rest(self) -> None:
        """Until the next heartbeat."""
        self._rested = time.monotonic()
        self.due = self._rested + self.plan.heartbeat_interval_ms / 1000

    def _own(self, partitions: Iterable[int]) -> None:
        owned = frozenset(partitions)
        self.lost |= self.owned - owned
        self.owned = owned


class ClassicMember(Member):
    """Gives everything up when its group rebalances, as consumers with the range assignor do."""

    def __init__(self, plan: GroupPlan) -> None:
        super().__init__(plan)
        self._generation = -1

    def join(self) -> None:
        subscription = write_subscription(Subscription([TopicName(self.plan.topic)]))
        request = JoinGroupRequest(
            group_id=self.plan.group_id,
            session_timeout_ms=self.plan.session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
        )
        self._send(frames.request_frame(request, JOIN_VERSION), self._joined)

    def heartbeat(self) -> None:
        self._send(self.heartbeat_frame(), self._heard)

    def heartbeat_frame(self) -> bytes:
        request = HeartbeatRequest(group_id=self.plan.group_id, generation_id=self._generation, member_id=self.id)
        return frames.request_frame(request, HEARTBEAT_VERSION)

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id=self.plan.group_id, members=[MemberIdentity(member_id=self.id)])
        self._send(frames.request_frame(request, LEAVE_VERSION), self._left)

    @staticmethod
    def group_waited_s(members: Iterable[Member], last: Member) -> float:
        """No member gets partitions before every member has learned of the rebalance and joined again."""
        del last
        return max(member.waited_s for member in members)

    def _joined(self, response: bytearray) -> None:
        joined = frames.read_response(JoinGroupResponse, JOIN_VERSION, response)
        if joined.error_code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
            self.id = joined.member_id
            self.join()
            return
        check(joined.error_code, f"JoinGroup of {self.id}")
        self._generation = joined.generation_id
        is_leader = joined.leader == self.id
        request = SyncGroupRequest(
            group_id=self.plan.group_id,
            generation_id=self._generation,
            member_id=self.id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=self._divide(sorted(each.member_id for each in joined.members)) if is_leader else [],
        )
        self._send(frames.request_frame(request, SYNC_VERSION), self._synced)

    def _divide(self, member_ids: Sequence[str]) -> list[SyncGroupRequestAssignment]:
        """A range for each, in the order of their ids."""
        partitions, count = self.plan.partitions, len(member_ids)
        bounds = [index * partitions // count for index in range(count + 1)]
        topic = TopicName(self.plan.topic)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=write_assignment({topic: range(bounds[index], bounds[index + 1])})
            )
            for index, member_id in enumerate(member_ids)
        ]

    def _synced(self, response: bytearray) -> None:
        synced = frames.read_response(SyncGroupResponse, SYNC_VERSION, response)
        if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        check(synced.error_code, f"SyncGroup of {self.id}")
        self._own(read_assignment(bytes(synced.assignment)).partitions[TopicName(self.plan.topic)])
        self._rest()

    def _left(self, response: bytearray) -> None:
        (left,) = frames.read_response(LeaveGroupResponse, LEAVE_VERSION, response).members
        check(left.error_code, f"LeaveGroup of {self.id}")
        self._own(())

    def _heard(self, response: bytearray) -> None:
        heard = frames.read_response(HeartbeatResponse, HEARTBEAT_VERSION, response)
        if heard.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._own(())
            self.join()
            return
        check(heard.error_code, f"Heartbeat of {self.id}")
        self._rest()


class ConsumerMember(Member):
    """Follows what the broker assigns (KIP-848), and says at once when it has let go or taken over."""

    def __init__(self, plan: GroupPlan) -> None:
        super().__init__(plan)
        self.id = str(uuid4())
        self._epoch = JOIN_EPOCH
        self._topic_id: UUID | None = None

    def join(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.plan.group_id,
            member_id=self.id,
            member_epoch=JOIN_EPOCH,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self.plan.topic],
            topic_partitions=[],
        )
        self._send(frames.request_frame(request, CONSUMER_HEARTBEAT_VERSION), self._heard)

    def heartbeat(self) -> None:
        self._send(self.heartbeat_frame(), self._heard)

    def heartbeat_frame(self, owned: list[TopicPartitions] | None = None) -> bytes:
        """A heartbeat that lists the owned partitions only if they have changed."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.plan.group_id, member_id=self.id, member_epoch=self._epoch, topic_partitions=owned
        )
        return frames.request_frame(request, CONSUMER_HEARTBEAT_VERSION)

    def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.plan.group_id, member_id=self.id, member_epoch=LEAVE_EPOCH
        )
        self._send(frames.request_frame(request, CONSUMER_HEARTBEAT_VERSION), self._left)

    @staticmethod
    def group_waited_s(members: Iterable[Member], last: Member) -> float:
        """No request ever waits in the broker, so only the last member's own rest counts."""
        del members
        return last.waited_s

    def _left(self, response: bytearray) -> None:
        self._read(response)
        self._own(())

    def _read(self, response: bytearray) -> ConsumerGroupHeartbeatResponse:
        read = frames.read_response(ConsumerGroupHeartbeatResponse, CONSUMER_HEARTBEAT_VERSION, response)
        check(read.error_code, f"ConsumerGroupHeartbeat of {self.id}", read.error_message)
        return read

    def _heard(self, response: bytearray) -> None:
        heard = self._read(response)
        self._epoch = heard.member_epoch
        if heard.assignment is None:
            self._rest()
            return
        topics = heard.assignment.topic_partitions
        assigned = frozenset(partition for topic in topics for partition in topic.partitions)
        if assigned == self.owned:
            self._rest()
            return
        self._topic_id = topics[0].topic_id if topics else self._topic_id
        self._own(assigned)
        assert self._topic_id is not None, "what is owned has been assigned"
        owned = TopicPartitions(topic_id=self._topic_id, partitions=sorted(assigned))
        self._send(self.heartbeat_frame([owned]), self._heard)
