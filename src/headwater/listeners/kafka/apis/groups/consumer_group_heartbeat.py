"""ConsumerGroupHeartbeat (key 68), v0-1: the whole consumer protocol (KIP-848) in one request: join, report owned
partitions, get an assignment, leave.

v1 adds subscriptions by regular expression, and members make their own ids; a member of v0 gets its id from the broker.
"""

from collections.abc import Iterable
from uuid import uuid4

from headwater.broker.pending import Pending
from headwater.coordination.groups.assignment import Assignment as Partitions
from headwater.coordination.groups.assignment import assignment_of
from headwater.coordination.groups.consumer.commands import MemberAnswer, MemberHeartbeat
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, MemberId, TopicId, TopicName
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.security.acl import Operation, group, topic

REQUEST = ConsumerGroupHeartbeatRequest

FIRST_VERSION_WITH_OWN_MEMBER_ID = 1


def handle(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]:
    names = request.subscribed_topic_names
    try:
        context.guard.check(Operation.READ, group(request.group_id))
        for name in names or ():
            context.guard.check(Operation.DESCRIBE, topic(name))
    except HeadwaterError as denial:
        return _response(denial)
    makes_own_id = context.api_version >= FIRST_VERSION_WITH_OWN_MEMBER_ID
    heartbeat = MemberHeartbeat(
        member_id=MemberId(request.member_id),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else tuple(map(TopicName, names)),
        topic_regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else _owned(request.topic_partitions),
        client_id=context.client_id or "",
        client_host=context.client_host,
        new_member_id=MemberId("" if makes_own_id else str(uuid4())),
    )
    return context.broker.groups.member_heartbeat(GroupId(request.group_id), heartbeat).map(_response)


def _owned(topics: Iterable[TopicPartitions]) -> Partitions:
    return assignment_of((TopicId(topic.topic_id), partition) for topic in topics for partition in topic.partitions)


def _response(outcome: MemberAnswer | HeadwaterError) -> ConsumerGroupHeartbeatResponse:
    if isinstance(outcome, HeadwaterError):
        return ConsumerGroupHeartbeatResponse(error_code=outcome.code, error_message=str(outcome))
    return ConsumerGroupHeartbeatResponse(
        member_id=outcome.member_id,
        member_epoch=outcome.epoch,
        heartbeat_interval_ms=outcome.heartbeat_interval_ms,
        assignment=None if outcome.assignment is None else _assignment(outcome.assignment),
    )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in partitions.items()
        ]
    )
