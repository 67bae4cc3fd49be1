"""What the five APIs for the state of share-partitions share: other brokers ask about partitions of topics by id."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from headwater.broker.pending import Pending, result_of
from headwater.broker.shards.shard import Outcome
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, TopicId
from headwater.listeners.kafka.context import Context
from headwater.security.acl import CLUSTER, Operation


class StatePartition(Protocol):
    @property
    def partition(self) -> int: ...


PartitionT = TypeVar("PartitionT", bound=StatePartition)
ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")


async def answers(
    group_id: str,
    topics: Sequence[tuple[UUID, Sequence[PartitionT]]],
    ask: Callable[[SharePartitionId, PartitionT], Pending[Outcome[ResultT]]],
    answer: Callable[[PartitionT, Outcome[ResultT]], AnswerT],
    context: Context,
) -> list[tuple[UUID, list[AnswerT]]]:
    """The answers by topic and partition, in the order of the request. As in Kafka, a group without a name has none."""
    if not group_id:
        return []
    denial = context.guard.denial(Operation.CLUSTER_ACTION, CLUSTER)
    asked: list[tuple[UUID, list[tuple[PartitionT, Any]]]] = [
        (
            topic_id,
            [
                (each, denial or ask(SharePartitionId(GroupId(group_id), TopicId(topic_id), each.partition), each))
                for each in partitions
            ],
        )
        for topic_id, partitions in topics
    ]
    return [
        (topic_id, [answer(each, await result_of(outcome)) for each, outcome in outcomes])
        for topic_id, outcomes in asked
    ]


def error_of(outcome: Outcome[object]) -> dict[str, Any]:
    """The fields of a refusal in the answers of all five; none if nothing is wrong."""
    if not isinstance(outcome, HeadwaterError):
        return {}
    return {"error_code": outcome.code, "error_message": str(outcome)}
