"""A consumer as a member of its group: it joins, reports what it owns, gives partitions up and leaves, by the
next-generation protocol (KIP-848). Members of Kafka clients may be in the same group, also with the classic protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import uuid4

from headwater.broker.broker import Broker
from headwater.coordination.groups.assignment import NOTHING, Assignment, difference
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH, LEAVE_EPOCH, MemberAnswer, MemberHeartbeat
from headwater.coordination.groups.consumer.member import UNCHANGED_TIMEOUT
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId, MemberId, TopicName
from headwater.listeners.http.outcome import granted

# A partition that is taken away is given up at once: nobody else processes its records.
REBALANCE_TIMEOUT_MS: Final = 30_000
# Heartbeats that follow each other, each because of the answer before.
_FOLLOWING_MAX: Final = 8
_FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


class GroupMembership:
    def __init__(
        self,
        broker: Broker,
        group_id: GroupId,
        client_id: str,
        client_host: str,
        revoked: Callable[[Assignment], Awaitable[None]],
        lost: Callable[[], None],
    ) -> None:
        """`revoked` is called before the member gives up partitions: the last time to commit their offsets. `lost` is
        called when it is no member any more, so that others may own its partitions already."""
        self._broker = broker
        self.group_id = group_id
        self._client_id = client_id
        self._client_host = client_host
        self._revoked = revoked
        self._lost = lost
        self.member_id = MemberId(str(uuid4()))
        self.epoch = JOIN_EPOCH
        self.owned: Assignment = NOTHING
        self.due_ms = 0
        self._topic_names: Sequence[TopicName] = ()
        self._topic_regex = ""
        self._is_owned_told = False
        self._is_subscription_told = False
        self._beating: asyncio.Task[None] | None = None
        self._has_left = False

    async def subscribe(self, names: Sequence[str], pattern: str | None) -> None:
        """Raises a Refusal of the coordinator."""
        self._topic_names = tuple(map(TopicName, names))
        self._topic_regex = pattern or ""
        self._is_subscription_told = False
        await self._broker.groups.prepare()
        if self._beating is not None and not self._beating.done():
            # It may have told the subscription before.
            await asyncio.wait([self._beating])
        await self.beat()

    async def beat(self) -> None:
        """A heartbeat, and those that follow from its answer at once. Raises a Refusal.

        Also if the caller is cancelled, the answer counts: the coordinator tells an assignment once.
        """
        if self._has_left:
            return
        if self._beating is None or self._beating.done():
            self._beating = asyncio.get_running_loop().create_task(self._beat())
            # Asked for even if nobody waits any more, or else it would be logged.
            self._beating.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._beating)

    async def _beat(self) -> None:
        for _ in range(_FOLLOWING_MAX):
            if self._has_left or not await self._beat_once():
                break

    async def _beat_once(self) -> bool:
        """Whether the coordinator is to be told of a change at once."""
        try:
            answer = await self._send()
        except HeadwaterError as error:
            if error.code not in _FENCED:
                raise
            self.epoch = JOIN_EPOCH
            self.owned = NOTHING
            self._lost()
            return True
        self.epoch = answer.epoch
        if self._has_left:
            # Meanwhile.
            self._say_goodbye()
            return False
        self.due_ms = self._broker.clock.monotonic_ms() + answer.heartbeat_interval_ms
        if answer.assignment is None or answer.assignment == self.owned:
            return False
        lost = difference(self.owned, answer.assignment)
        if lost:
            await self._revoked(lost)
        self.owned = answer.assignment
        self._is_owned_told = False
        return True

    async def _send(self) -> MemberAnswer:
        joins = self.epoch == JOIN_EPOCH
        tells_subscription = joins or not self._is_subscription_told
        owned = self.owned if joins or not self._is_owned_told else None
        self._is_subscription_told = self._is_owned_told = True
        heartbeat = MemberHeartbeat(
            member_id=self.member_id,
            epoch=self.epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else UNCHANGED_TIMEOUT,
            topic_names=self._topic_names if tells_subscription else None,
            topic_regex=self._topic_regex if tells_subscription else None,
            assignor=None,
            owned=owned,
            client_id=self._client_id,
            client_host=self._client_host,
            new_member_id=MemberId(""),
        )
        try:
            return await granted(self._broker.groups.member_heartbeat(self.group_id, heartbeat))
        except HeadwaterError:
            self._is_subscription_told = self._is_owned_told = False
            raise

    def leave(self) -> None:
        """Not waited for: a member that cannot leave is removed once its session ends."""
        if self._has_left:
            return
        self._has_left = True
        if self.epoch != JOIN_EPOCH:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        goodbye = MemberHeartbeat(
            self.member_id,
            LEAVE_EPOCH,
            None,
            None,
            UNCHANGED_TIMEOUT,
            None,
            None,
            None,
            None,
            self._client_id,
            self._client_host,
            MemberId(""),
        )
        self._broker.groups.member_heartbeat(self.group_id, goodbye)
