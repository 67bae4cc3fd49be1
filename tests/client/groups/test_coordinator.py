from collections.abc import Iterator

import pytest

from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import ConnectionLost, Refused, UnknownGroup
from headwater.client.groups.group_offsets import CommittedOffset, commit_offsets, fetch_offsets
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from headwater.protocol.wire.codec import Request, Response
from tests.support.client.scripted import patient
from tests.support.client.scripted_group import GROUP, ScriptedGroup, found

ORDERS = TopicPartition(TopicName("orders"), 0)


@pytest.fixture
def group() -> Iterator[ScriptedGroup]:
    with ScriptedGroup() as scripted:
        yield scripted


def refused(code: ErrorCode) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=GROUP, topics=[], error_code=code)])


def refuse_first(group: ScriptedGroup, answer: Response | None) -> None:
    """Give this answer to the first OffsetFetch request, and the usual answers to later ones."""
    healthy = group.scripts[OffsetFetchRequest]

    def script(_: Request) -> Response | None:
        group.scripts[OffsetFetchRequest] = healthy
        return answer

    group.scripts[OffsetFetchRequest] = script


def test_the_coordinator_is_looked_up_once_and_its_node_is_known(group: ScriptedGroup) -> None:
    group.committed[ORDERS] = 4
    with patient(group.bootstrap) as cluster:
        coordinator = GroupCoordinator(cluster, GROUP)
        assert fetch_offsets(coordinator, [ORDERS]) == {ORDERS: CommittedOffset(4)}
        assert fetch_offsets(coordinator, [ORDERS]) == {ORDERS: CommittedOffset(4)}
        assert coordinator.node.endpoint == group.endpoint
    (request,) = group.sent(FindCoordinatorRequest)
    assert isinstance(request, FindCoordinatorRequest)
    assert (request.key_type, request.coordinator_keys) == (0, [GROUP])


def test_the_lookup_is_retried_while_no_coordinator_is_available(group: ScriptedGroup) -> None:
    answers = [found(group), found(group, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    group.scripts[FindCoordinatorRequest] = lambda _: answers.pop()
    with patient(group.bootstrap) as cluster:
        assert fetch_offsets(GroupCoordinator(cluster, GROUP), [ORDERS]) == {}
    assert answers == []


@pytest.mark.parametrize("answer", [refused(ErrorCode.NOT_COORDINATOR), None])
def test_the_coordinator_is_looked_up_again_after_it_moved_or_hung_up(
    group: ScriptedGroup, answer: Response | None
) -> None:
    refuse_first(group, answer)
    with patient(group.bootstrap) as cluster:
        assert fetch_offsets(GroupCoordinator(cluster, GROUP), [ORDERS]) == {}
    assert len(group.sent(FindCoordinatorRequest)) == 2


def test_a_loading_coordinator_is_retried_without_a_new_lookup(group: ScriptedGroup) -> None:
    refuse_first(group, refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    with patient(group.bootstrap) as cluster:
        assert fetch_offsets(GroupCoordinator(cluster, GROUP), [ORDERS]) == {}
    assert len(group.sent(FindCoordinatorRequest)) == 1


def test_refusals_name_the_group(group: ScriptedGroup) -> None:
    group.scripts[OffsetFetchRequest] = lambda _: refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with patient(group.bootstrap) as cluster, pytest.raises(Refused, match="group 'readers': GROUP_AUTHORIZATION"):
        fetch_offsets(GroupCoordinator(cluster, GROUP))
    group.scripts[OffsetFetchRequest] = lambda _: refused(ErrorCode.GROUP_ID_NOT_FOUND)
    with patient(group.bootstrap) as cluster, pytest.raises(UnknownGroup, match="group 'readers' does not exist"):
        fetch_offsets(GroupCoordinator(cluster, GROUP))


def test_a_commit_by_a_non_member_names_no_member_and_its_refusal_names_the_partition(group: ScriptedGroup) -> None:
    with patient(group.bootstrap) as cluster:
        coordinator = GroupCoordinator(cluster, GROUP)
        commit_offsets(coordinator, {ORDERS: CommittedOffset(7, 3, "by hand")})
        group.commit_codes = [ErrorCode.UNKNOWN_MEMBER_ID]
        with pytest.raises(Refused, match=r"group 'readers', partition orders-0: .*\(UNKNOWN_MEMBER_ID\)"):
            commit_offsets(coordinator, {ORDERS: CommittedOffset(8)})
    request = group.commits[0]
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)
    assert (partition.committed_leader_epoch, partition.committed_metadata) == (3, "by hand")
    assert group.committed == {ORDERS: 7}


def test_an_unreachable_coordinator_is_looked_up_again_and_then_an_error(group: ScriptedGroup) -> None:
    answer = found(group)
    (described,) = answer.coordinators
    with ScriptedGroup() as gone:
        nowhere: Endpoint = gone.endpoint
    wrong = FindCoordinatorResponse(
        coordinators=[type(described)(key=GROUP, node_id=2, host=nowhere.host, port=nowhere.port)]
    )
    answers = [answer, wrong]
    group.scripts[FindCoordinatorRequest] = lambda _: answers.pop() if len(answers) > 1 else answers[0]
    with patient(group.bootstrap) as cluster:
        assert fetch_offsets(GroupCoordinator(cluster, GROUP), [ORDERS]) == {}, "the next answer leads somewhere"
        answers[0] = wrong
        with pytest.raises(ConnectionLost, match="cannot reach"):
            GroupCoordinator(cluster, GROUP).ask_once(
                OffsetFetchRequest(groups=[]), OffsetFetchResponse, lambda response: response
            )
