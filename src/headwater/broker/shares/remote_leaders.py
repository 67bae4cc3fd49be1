"""The state of share-partitions for other brokers, which lead the partitions (KIP-932, keys 83 to 87)."""

from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.broker.shards.sharded_topic import refused
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.topics import Topics
from headwater.coordination.decisions import Decision
from headwater.coordination.shares.commands import ShareStatus
from headwater.coordination.shares.state_requests import ReadState, WriteState
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, Refusal


class RemoteLeaders:
    def __init__(self, shares: ShareCoordinator, topics: Topics) -> None:
        self._shares = shares
        self._topics = topics

    def initialize(self, share_id: SharePartitionId, state_epoch: int, start_offset: int) -> Pending[Outcome[None]]:
        refusal = self._refusal_of(share_id)
        if refusal is not None:
            return refused(refusal)
        return self._shares.submit(
            share_id.coordinator_key,
            lambda machine, _, now: machine.decide_initialize(share_id, state_epoch, start_offset, now),
        )

    def read(self, share_id: SharePartitionId, leader_epoch: int) -> Pending[Outcome[ReadState]]:
        return self._shares.submit(
            share_id.coordinator_key, lambda machine, _, now: machine.decide_read(share_id, leader_epoch, now)
        )

    def write(self, share_id: SharePartitionId, command: WriteState) -> Pending[Outcome[None]]:
        return self._shares.submit(
            share_id.coordinator_key, lambda machine, _, now: machine.decide_write(share_id, command, now)
        )

    def delete(self, share_id: SharePartitionId) -> Pending[Outcome[None]]:
        refusal = self._refusal_of(share_id)
        if refusal is not None:
            return refused(refusal)
        return self._shares.submit(
            share_id.coordinator_key, lambda machine, _ticket, _now: machine.decide_forget(share_id.__eq__)
        )

    def summary(self, share_id: SharePartitionId) -> Pending[Outcome[ShareStatus | None]]:
        """None if the share-partition is not initialized."""
        refusal = self._refusal_of(share_id)
        if refusal is not None:
            return refused(refusal)

        return self._shares.submit(
            share_id.coordinator_key, lambda machine, _ticket, _now: Decision((), machine.status(share_id))
        )

    def _refusal_of(self, share_id: SharePartitionId) -> Refusal | None:
        if share_id.partition < 0:
            return Refusal(ErrorCode.INVALID_REQUEST, f"there is no partition {share_id.partition}")
        topic = self._topics.find_by_id(share_id.topic_id)
        if topic is None or share_id.partition >= topic.partition_count:
            return Refusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{share_id.topic_id} has no partition {share_id.partition}"
            )
        return None
