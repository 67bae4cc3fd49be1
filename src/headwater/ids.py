"""Identifiers that must not be mixed up: each is a distinct type for the checker and a plain value at run time."""

from typing import NamedTuple, NewType
from uuid import UUID

NodeId = NewType("NodeId", int)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", UUID)
ProducerId = NewType("ProducerId", int)
GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
TransactionalId = NewType("TransactionalId", str)

NO_TOPIC_ID = TopicId(UUID(int=0))
NO_PRODUCER_ID = ProducerId(-1)

# In the transactional id of one of many writers to a sink, what separates its application's id from its own.
STAGING_INFIX = "::staging::"


class TopicPartition(NamedTuple):
    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def staging_id(application_id: str, writer: str) -> TransactionalId:
    return TransactionalId(f"{application_id}{STAGING_INFIX}{writer}")


def application_of(transactional_id: str) -> TransactionalId:
    """Whose writer it is; an id that stages nothing stands for itself."""
    return TransactionalId(transactional_id.partition(STAGING_INFIX)[0])
