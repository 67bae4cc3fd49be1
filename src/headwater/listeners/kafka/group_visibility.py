"""Which groups a client is shown: those of whose topics it may describe all. The rule of every kind of group."""

from collections.abc import Iterable
from typing import Protocol

from headwater.coordination.groups.assignment import Assignment as Partitions
from headwater.errors import ErrorCode, Refusal
from headwater.listeners.kafka.context import Context
from headwater.security.acl import Operation, topic


class DescribedMember(Protocol):
    @property
    def topic_names(self) -> Iterable[str]: ...
    @property
    def assigned(self) -> Partitions: ...


def topics_denial(
    members: Iterable[DescribedMember], targets: Iterable[Partitions], context: Context
) -> Refusal | None:
    """Why the client is not shown the group; None if it is. `targets` are assignments beside those of the members."""
    if context.guard.is_open:
        return None
    names: set[str] = set()
    assignments = list(targets)
    for member in members:
        names.update(member.topic_names)
        assignments.append(member.assigned)
    for assignment in assignments:
        for topic_id in assignment:
            found = context.broker.topics.find_by_id(topic_id)
            names.update(() if found is None else (found.name,))
    if all(context.guard.allows(Operation.DESCRIBE, topic(name)) for name in names):
        return None
    return Refusal(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "The group has described topic(s) that the client is not authorized to describe.",
    )
