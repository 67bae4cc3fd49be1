"""ElectLeaders (key 43), v0-2: elects leaders of the named partitions, or of all.

v0 knows only the election of preferred leaders and has no error for the whole, v1 adds both, v2 is flexible."""

from collections.abc import Iterable

from headwater.broker.replicas import ElectionType
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.replicas.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = ElectLeadersRequest


def handle(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    try:
        context.guard.check(Operation.ALTER, CLUSTER)
        kind = _election_type(request.election_type)
    except HeadwaterError as error:
        return ElectLeadersResponse(
            error_code=error.code,
            replica_election_results=[
                ReplicaElectionResult(
                    topic=each.topic, partition_result=[_result(index, error) for index in each.partitions]
                )
                for each in request.topic_partitions or ()
            ],
        )
    if request.topic_partitions is None:
        everything = [(topic.name, range(topic.partition_count)) for topic in context.broker.topics.all()]
        return _results(everything, kind, context, only_needed=True)
    return _results([(each.topic, each.partitions) for each in request.topic_partitions], kind, context)


def _election_type(number: int) -> ElectionType:
    try:
        return ElectionType(number)
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no election of type {number}") from None


def _results(
    partitions: Iterable[tuple[str, Iterable[int]]], kind: ElectionType, context: Context, *, only_needed: bool = False
) -> ElectLeadersResponse:
    """As in Kafka, partitions that have their leader are named only to a client that has named them."""
    results: list[ReplicaElectionResult] = []
    for topic, indexes in partitions:
        outcomes = [(index, _elect(topic, index, kind, context)) for index in indexes]
        shown = [
            _result(index, error)
            for index, error in outcomes
            if not only_needed or error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
        ]
        results.append(ReplicaElectionResult(topic=topic, partition_result=shown))
    return ElectLeadersResponse(replica_election_results=results)


def _elect(topic: str, index: int, kind: ElectionType, context: Context) -> HeadwaterError | None:
    try:
        context.broker.replicas.check_election(topic, index, kind)
    except HeadwaterError as refusal:
        return refusal.kept()
    return None


def _result(index: int, error: HeadwaterError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=index)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
