"""The durable events of committed offsets, each one record of `__consumer_offsets`.

The end of a transaction is the exception: it is a control record, has no key, and decides about everything that its
producer has committed in the partition before it.
"""

from typing import NamedTuple, TypeAlias

from headwater.ids import NO_TOPIC_ID, GroupId, ProducerId, TopicId, TopicName


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    # -1: the group's rule applies. Only very old clients ask for an expiry of their own.
    expire_timestamp_ms: int = -1
    topic_id: TopicId = NO_TOPIC_ID


class OffsetCommitted(NamedTuple):
    group_id: GroupId
    topic: TopicName
    partition: int
    committed: CommittedOffset


class OffsetForgotten(NamedTuple):
    group_id: GroupId
    topic: TopicName
    partition: int


class TransactionalOffsetCommitted(NamedTuple):
    """An offset committed inside a transaction: pending until the transaction is committed."""

    producer_id: ProducerId
    producer_epoch: int
    group_id: GroupId
    topic: TopicName
    partition: int
    committed: CommittedOffset


class TransactionEnded(NamedTuple):
    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    # Protocol version. In version 2 a marker's epoch is higher than that of the records which it ends. The version
    # only serves to check whether the marker may still be accepted, so the log, which holds accepted markers, does not
    # store it.
    transaction_version: int = 1


# What belongs to the transaction of a producer, and is written under its producer id and epoch.
TransactionEvent: TypeAlias = TransactionalOffsetCommitted | TransactionEnded
OffsetEvent: TypeAlias = OffsetCommitted | OffsetForgotten | TransactionEvent
