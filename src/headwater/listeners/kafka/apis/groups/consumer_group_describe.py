"""ConsumerGroupDescribe (key 69), v0-1: groups of the consumer protocol (KIP-848) with their members, what each member
owns and what it is to own. v1 adds the protocol that a member speaks."""

from headwater.broker.broker import Broker
from headwater.broker.pending import result_of
from headwater.coordination.groups.assignment import Assignment as Partitions
from headwater.coordination.groups.consumer.commands import ConsumerDescription, ConsumerMemberDescription
from headwater.errors import HeadwaterError
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.group_visibility import topics_denial
from headwater.protocol.messages.groups.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from headwater.protocol.messages.topics.metadata import NO_AUTHORIZED_OPERATIONS
from headwater.security.acl import Operation, group

REQUEST = ConsumerGroupDescribeRequest

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


async def handle(request: ConsumerGroupDescribeRequest, context: Context) -> ConsumerGroupDescribeResponse:
    describe = context.broker.groups.describe_consumer
    # Once each: a request that names a group a thousand times must not get its members a thousand times.
    names = dict.fromkeys(request.group_ids)
    outcomes = [
        (
            group_id,
            context.guard.denial(Operation.DESCRIBE, group(group_id)) or describe(GroupId(group_id)),
        )
        for group_id in names
    ]
    return ConsumerGroupDescribeResponse(
        groups=[_described(group_id, await result_of(outcome), request, context) for group_id, outcome in outcomes]
    )


def _described(
    group_id: str,
    outcome: ConsumerDescription | HeadwaterError,
    request: ConsumerGroupDescribeRequest,
    context: Context,
) -> DescribedGroup:
    broker = context.broker
    if not isinstance(outcome, HeadwaterError):
        outcome = topics_denial(outcome.members, (each.target for each in outcome.members), context) or outcome
    if isinstance(outcome, HeadwaterError):
        return DescribedGroup(error_code=outcome.code, error_message=str(outcome), group_id=group_id, members=[])
    return DescribedGroup(
        group_id=group_id,
        group_state=outcome.state.value,
        group_epoch=outcome.epoch,
        assignment_epoch=outcome.assignment_epoch,
        assignor_name=outcome.assignor,
        members=[_member(member, broker) for member in outcome.members],
        authorized_operations=context.guard.operations(group(group_id))
        if request.include_authorized_operations
        else NO_AUTHORIZED_OPERATIONS,
    )


def _member(member: ConsumerMemberDescription, broker: Broker) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        # As in Kafka: null is for other kinds of groups.
        subscribed_topic_regex=member.topic_regex or "",
        assignment=_assignment(member.assigned, broker),
        target_assignment=_assignment(member.target, broker),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Partitions, broker: Broker) -> Assignment:
    """Leaves out topics that have been deleted since."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=found.name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (found := broker.topics.find_by_id(topic_id)) is not None
        ]
    )
