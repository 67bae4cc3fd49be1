"""ShareGroupDescribe (key 77), v1: share groups with their members, and what each member reads."""

from headwater.broker.broker import Broker
from headwater.broker.pending import result_of
from headwater.coordination.groups.share.commands import ShareDescription, ShareMemberDescription
from headwater.errors import HeadwaterError
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.group_visibility import topics_denial
from headwater.protocol.messages.shares.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from headwater.protocol.messages.topics.metadata import NO_AUTHORIZED_OPERATIONS
from headwater.security.acl import Operation, group

REQUEST = ShareGroupDescribeRequest


async def handle(request: ShareGroupDescribeRequest, context: Context) -> ShareGroupDescribeResponse:
    describe = context.broker.groups.describe_share
    # Once each: a request that names a group a thousand times must not get its members a thousand times.
    names = dict.fromkeys(request.group_ids)
    outcomes = [
        (group_id, context.guard.denial(Operation.DESCRIBE, group(group_id)) or describe(GroupId(group_id)))
        for group_id in names
    ]
    return ShareGroupDescribeResponse(
        groups=[_described(group_id, await result_of(outcome), request, context) for group_id, outcome in outcomes]
    )


def _described(
    group_id: str, outcome: ShareDescription | HeadwaterError, request: ShareGroupDescribeRequest, context: Context
) -> DescribedGroup:
    if not isinstance(outcome, HeadwaterError):
        outcome = topics_denial(outcome.members, (), context) or outcome
    if isinstance(outcome, HeadwaterError):
        return DescribedGroup(error_code=outcome.code, error_message=str(outcome), group_id=group_id, members=[])
    return DescribedGroup(
        group_id=group_id,
        group_state=outcome.state.value,
        group_epoch=outcome.epoch,
        assignment_epoch=outcome.assignment_epoch,
        assignor_name=outcome.assignor,
        members=[_member(member, context.broker) for member in outcome.members],
        authorized_operations=context.guard.operations(group(group_id))
        if request.include_authorized_operations
        else NO_AUTHORIZED_OPERATIONS,
    )


def _member(member: ShareMemberDescription, broker: Broker) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        # Leaves out topics that have been deleted since.
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=found.name, partitions=sorted(indexes))
                for topic_id, indexes in member.assigned.items()
                if (found := broker.topics.find_by_id(topic_id)) is not None
            ]
        ),
    )
