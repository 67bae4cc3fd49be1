"""Identifiers that must not be mixed up: each is a distinct type for the type checker and a plain value at run time."""

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

# Separates the application's id from the writer's own in the transactional id of a staging writer.
STAGING_INFIX = "::staging::"


class TopicPartition(NamedTuple):
    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def staging_id(application_id: str, writer: str) -> TransactionalId:
    return TransactionalId(f"{application_id}{STAGING_INFIX}{writer}")


def application_of(transactional_id: str) -> TransactionalId:
    """Return the application of a staging writer's transactional id; any other id is returned as it is."""
    return TransactionalId(transactional_id.partition(STAGING_INFIX)[0])
