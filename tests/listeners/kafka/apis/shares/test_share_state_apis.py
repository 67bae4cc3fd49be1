"""The requests for the state of share-partitions, which brokers send to each other, on the wire."""

from uuid import UUID, uuid4

import pytest

from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode
from headwater.ids import GroupId, TopicId
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_share_states import ShareStates
from tests.support.kafka.raw_shares import ACCEPT, LONG_MS, Member, new_group, offsets_of

ACKNOWLEDGED = 2
SHARE_KEY = 2


@pytest.fixture
def group(client: RawClient) -> str:
    return new_group(client)


@pytest.fixture
def states(client: RawClient, group: str, topic_id: UUID) -> ShareStates:
    key = SharePartitionId(GroupId(group), TopicId(topic_id), 0).coordinator_key
    found = client.ask(FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[key]), FindCoordinatorResponse, 6)
    assert found.coordinators[0].error_code == ErrorCode.NONE
    return ShareStates(client, group, topic_id)


def test_the_state_that_another_broker_stores_decides_what_members_get(
    client: RawClient, group: str, states: ShareStates, name: str, topic_id: UUID
) -> None:
    assert client.produce(name, batch_of(*(b"%d" % each for each in range(10)))).error_code == ErrorCode.NONE
    assert states.initialize(0, 2).error_code == ErrorCode.NONE
    assert states.write(0, 0, 2, [(4, 5, ACKNOWLEDGED, 1), (6, 6, 0, 3)]).error_code == ErrorCode.NONE
    member = Member(client, group).join(name, topic_id)
    assert member.fetch(wait_ms=LONG_MS) == [(2, 3, 1), (6, 6, 4), (7, 9, 1)]
    assert member.settle((2, 3, ACCEPT), (6, 6, ACCEPT)) == ErrorCode.NONE
    told = states.summary()
    assert (told.error_code, told.start_offset, told.delivery_complete_count) == (ErrorCode.NONE, 7, 0)
    assert states.read(-1).start_offset == 7


def test_a_group_whose_start_was_left_open_begins_where_its_settings_say(
    client: RawClient, group: str, states: ShareStates, name: str, topic_id: UUID
) -> None:
    assert client.produce(name, batch_of(b"0", b"1")).error_code == ErrorCode.NONE
    assert states.initialize(0, -1).error_code == ErrorCode.NONE
    assert (states.read(0).start_offset, states.summary().start_offset) == (-1, -1)
    assert offsets_of(client, group)[name, 0][0] == -1
    member = Member(client, group).join(name, topic_id)
    assert member.fetch(wait_ms=LONG_MS) == [(0, 1, 1)]


def test_what_is_deleted_is_not_initialized_any_more(states: ShareStates) -> None:
    assert states.initialize(4, 2).error_code == ErrorCode.NONE
    assert states.delete().error_code == ErrorCode.NONE
    assert states.delete().error_code == ErrorCode.NONE
    assert states.read(0).error_code == ErrorCode.INVALID_REQUEST
    told = states.summary()
    assert (told.error_code, told.state_epoch, told.start_offset) == (ErrorCode.NONE, 0, -1)


def test_partitions_that_do_not_exist_are_refused(client: RawClient, group: str, states: ShareStates) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for missing in (ShareStates(client, group, states.topic_id, 7), ShareStates(client, group, uuid4())):
        assert missing.initialize(0, 0).error_code == unknown
        assert missing.summary().error_code == unknown
        assert missing.delete().error_code == unknown
        assert missing.read(0).error_code == ErrorCode.INVALID_REQUEST
        assert missing.write(0, 0, 0).error_code == ErrorCode.INVALID_REQUEST
    negative = ShareStates(client, group, states.topic_id, -3)
    told = (negative.initialize(0, 0), negative.summary(), negative.delete(), negative.read(0), negative.write(0, 0, 0))
    assert {each.error_code for each in told} == {ErrorCode.INVALID_REQUEST}


def test_without_its_internal_topic_a_broker_coordinates_nothing() -> None:
    with Broker() as broker, RawClient(broker) as client:
        states = ShareStates(client, "billing", client.create("orders"))
        told = (states.initialize(0, 0), states.summary(), states.delete(), states.read(0), states.write(0, 0, 0))
        assert {each.error_code for each in told} == {ErrorCode.NOT_COORDINATOR}
