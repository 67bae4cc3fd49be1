"""ShareFetch and ShareAcknowledge on the wire: acquiring, acknowledging, sessions, waiting."""

import threading
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from headwater.broker.partition import Partition
from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches_module
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually, on_loop
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_shares import (
    ACCEPT,
    FINAL,
    INITIAL,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    acquired,
    batches,
    error_of,
    new_group,
    offsets_of,
)
from tests.support.kafka.raw_transactions import ended, init, written

NOBODY_WAITS = 0


@pytest.fixture
def group(client: RawClient) -> str:
    return new_group(client)


@pytest.fixture
def member(client: RawClient, group: str, name: str, topic_id: UUID) -> Member:
    return Member(client, group).join(name, topic_id)


def produce(client: RawClient, topic: str, count: int = 10, *, partition: int = 0) -> None:
    assert (
        client.produce(topic, batch_of(*(b"%d" % each for each in range(count))), partition=partition).error_code == 0
    )


def other(broker: Broker, member: Member) -> Member:
    """Another member, on a connection of its own."""
    found = Member(RawClient(broker), member.group)
    found.topic_id = member.topic_id
    return found


# -- records


@pytest.mark.parametrize("version", [1, 2])
def test_a_member_gets_records_and_accepts_them(
    client: RawClient, member: Member, name: str, group: str, version: int
) -> None:
    produce(client, name)
    response = member.ask(version=version)
    assert acquired(response) == [(0, 9, 1)]
    assert response.acquisition_lock_timeout_ms == 30_000
    ((partition,),) = (topic.partitions for topic in response.responses)
    found = [
        record.value
        for header, batch in batches_module.iterate(partition.records)
        for record in batches_module.read_records(batch, header, 1 << 20)
    ]
    assert found == [b"%d" % each for each in range(10)]
    assert offsets_of(client, group) == {(name, 0): (0, 10)}
    assert member.settle((0, 9, ACCEPT), version=version) == ErrorCode.NONE
    assert offsets_of(client, group) == {(name, 0): (10, 0)}


def test_two_members_share_the_records_of_one_partition(
    broker: Broker, client: RawClient, member: Member, name: str
) -> None:
    produce(client, name)
    produce(client, name)
    assert member.fetch(records_max=1) == [(0, 9, 1)]
    second = other(broker, member)
    assert second.fetch() == [(10, 19, 1)]
    assert second.settle((0, 9, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
    assert member.settle((0, 9, [ACCEPT] * 9 + [RELEASE])) == ErrorCode.NONE
    assert second.fetch() == [(9, 9, 2)]
    second.client.socket.close()


def test_only_the_batches_of_acquired_records_are_sent(client: RawClient, member: Member, name: str) -> None:
    for _ in range(3):
        produce(client, name)
    assert member.fetch() == [(0, 29, 1)]
    assert member.settle((0, 29, [ACCEPT] * 14 + [RELEASE] * 2 + [ACCEPT] * 14)) == ErrorCode.NONE
    response = member.ask()
    assert acquired(response) == [(14, 15, 2)]
    ((partition,),) = (topic.partitions for topic in response.responses)
    assert [header.base_offset for header, _ in batches_module.iterate(partition.records)] == [10]


def test_a_strict_limit_cuts_batches(client: RawClient, member: Member, name: str) -> None:
    produce(client, name)
    assert member.fetch(records_max=3, share_acquire_mode=1) == [(0, 2, 1)]
    assert member.fetch(records_max=3, share_acquire_mode=1) == [(3, 5, 1)]
    assert member.fetch(records_max=3) == [(6, 9, 1)]


def test_acknowledgements_go_along_with_a_fetch(client: RawClient, member: Member, name: str) -> None:
    produce(client, name)
    produce(client, name)
    assert member.fetch(records_max=1) == [(0, 9, 1)]
    assert member.fetch({0: batches((0, 4, ACCEPT), (5, 9, REJECT))}) == [(10, 19, 1)]
    response = member.ask({0: batches((10, 30, ACCEPT))}, wait_ms=NOBODY_WAITS)
    ((partition,),) = (topic.partitions for topic in response.responses)
    assert partition.error_code == ErrorCode.NONE
    assert partition.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE
    assert offsets_of(client, member.group) == {(name, 0): (10, 10)}


def test_a_record_leaves_the_queue_after_its_last_attempt(client: RawClient, name: str, topic_id: UUID) -> None:
    group = new_group(client, share_delivery_count_limit="2")
    member = Member(client, group).join(name, topic_id)
    produce(client, name, 1)
    for count in (1, 2):
        assert member.fetch() == [(0, 0, count)]
        assert member.settle((0, 0, RELEASE)) == ErrorCode.NONE
    assert member.fetch(wait_ms=NOBODY_WAITS) == []
    assert offsets_of(client, group) == {(name, 0): (1, 0)}


def test_a_lock_that_runs_out_gives_the_records_to_another_member(
    broker: Broker, client: RawClient, name: str, topic_id: UUID
) -> None:
    group = new_group(client, share_record_lock_duration_ms="1000")
    member = Member(client, group).join(name, topic_id)
    produce(client, name)
    assert member.fetch() == [(0, 9, 1)]
    second = other(broker, member)
    assert second.fetch() == [(0, 9, 2)], "it waited until the lock had run out"
    assert member.settle((0, 9, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
    assert second.settle((0, 9, ACCEPT)) == ErrorCode.NONE
    second.client.socket.close()


def test_a_renewed_lock_is_kept(client: RawClient, member: Member, name: str) -> None:
    produce(client, name)
    assert member.fetch() == [(0, 9, 1)]
    response = member.acknowledge((0, 9, RENEW), is_renew_ack=True)
    assert error_of(response) == ErrorCode.NONE
    assert response.acquisition_lock_timeout_ms == 30_000
    assert member.settle((0, 9, RENEW)) == ErrorCode.INVALID_REQUEST, "the request must say that it renews"
    renewing = member.ask({0: batches((0, 9, RENEW))}, is_renew_ack=True)
    assert acquired(renewing) == []


def test_renewals_may_be_switched_off(client: RawClient, name: str, topic_id: UUID) -> None:
    group = new_group(client, share_renew_acknowledge_enable="false")
    member = Member(client, group).join(name, topic_id)
    produce(client, name)
    member.fetch()
    assert member.settle((0, 9, RENEW), is_renew_ack=True) == ErrorCode.INVALID_REQUEST


def test_the_limit_of_locks_holds_back_what_exceeds_it(client: RawClient, name: str, topic_id: UUID) -> None:
    group = new_group(client, share_partition_max_record_locks="100")
    member = Member(client, group).join(name, topic_id)
    produce(client, name, 100)
    produce(client, name, 100)
    assert member.fetch() == [(0, 99, 1)]
    assert member.fetch(wait_ms=NOBODY_WAITS) == []
    assert member.settle((0, 99, ACCEPT)) == ErrorCode.NONE
    assert member.fetch() == [(100, 199, 1)]


# -- waiting


def wait_in_background(member: Member, broker: Broker, partition: Partition) -> tuple[threading.Thread, list[object]]:
    """A fetch that waits on the broker already."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(member.fetch()))
    thread.start()
    eventually(broker, lambda: partition.watchers)
    return thread, found


def test_a_fetch_waits_for_records_to_be_produced(broker: Broker, client: RawClient, member: Member, name: str) -> None:
    member.fetch(wait_ms=NOBODY_WAITS)
    waiter = other(broker, member)
    thread, found = wait_in_background(waiter, broker, broker.node.broker.partition(name, 0))
    produce(client, name)
    thread.join()
    assert found == [[(0, 9, 1)]]
    waiter.client.socket.close()


def test_a_fetch_waits_for_records_to_be_released(broker: Broker, client: RawClient, member: Member, name: str) -> None:
    produce(client, name)
    assert member.fetch() == [(0, 9, 1)]
    waiter = other(broker, member)
    thread, found = wait_in_background(waiter, broker, broker.node.broker.partition(name, 0))
    member.settle((3, 4, RELEASE))
    thread.join()
    assert found == [[(3, 4, 2)]]
    waiter.client.socket.close()


def test_a_fetch_that_waits_in_vain_gives_nothing(client: RawClient, member: Member, name: str) -> None:
    response = member.ask(wait_ms=100)
    assert acquired(response) == []
    assert [len(topic.partitions) for topic in response.responses] == [1], "the first fetch shows all partitions"
    assert member.ask(wait_ms=100).responses == [], "and the others those with news"


def test_a_fetch_waits_for_the_bytes_that_it_wants(
    broker: Broker, client: RawClient, member: Member, name: str
) -> None:
    produce(client, name, 1)
    assert member.fetch(wait_ms=100, min_bytes=1 << 19) == [(0, 0, 1)], "at the end of its time it takes what there is"


def test_a_member_that_goes_away_gives_back_what_it_holds(
    broker: Broker, client: RawClient, member: Member, name: str
) -> None:
    produce(client, name)
    gone = other(broker, member)
    assert gone.fetch() == [(0, 9, 1)]
    gone.client.socket.close()
    assert member.fetch() == [(0, 9, 1)], "a delivery that it may not have seen does not count"


# -- sessions


def test_the_last_request_of_a_session_gives_back_what_is_held(client: RawClient, member: Member, name: str) -> None:
    produce(client, name)
    assert member.fetch() == [(0, 9, 1)]
    assert error_of(member.acknowledge((0, 3, ACCEPT), epoch=FINAL)) == ErrorCode.NONE
    assert member.fetch() == [(4, 9, 1)]
    response = member.ask({0: batches((4, 5, ACCEPT))}, epoch=FINAL)
    assert error_of(response) == ErrorCode.NONE
    assert member.fetch() == [(6, 9, 1)]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(5, ErrorCode.INVALID_SHARE_SESSION_EPOCH), (1, ErrorCode.INVALID_SHARE_SESSION_EPOCH)],
)
def test_a_wrong_session_epoch_is_refused(client: RawClient, member: Member, epoch: int, code: ErrorCode) -> None:
    member.fetch(wait_ms=NOBODY_WAITS)
    member.fetch(wait_ms=NOBODY_WAITS)
    assert error_of(member.ask(epoch=epoch)) == code
    assert error_of(member.acknowledge((0, 0, ACCEPT), epoch=epoch)) == code


def test_requests_outside_of_a_session_are_refused(member: Member) -> None:
    not_found = ErrorCode.SHARE_SESSION_NOT_FOUND
    for epoch in (1, FINAL):
        assert error_of(member.ask(epoch=epoch)) == not_found
        assert error_of(member.acknowledge((0, 0, ACCEPT), epoch=epoch)) == not_found
    assert error_of(member.acknowledge((0, 0, ACCEPT), epoch=INITIAL)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    response = member.ask({0: batches((0, 0, ACCEPT))})
    assert error_of(response) == ErrorCode.INVALID_REQUEST, "the first fetch acknowledges nothing"
    wrong: list[dict[str, Any]] = [{"group_id": None}, {"group_id": ""}, {"member_id": None}, {"member_id": "x" * 300}]
    for options in wrong:
        assert error_of(member.ask(**options)) == ErrorCode.INVALID_REQUEST
        assert error_of(member.acknowledge(**options)) == ErrorCode.INVALID_REQUEST


def test_a_session_goes_on_after_a_new_beginning_with_what_the_member_holds(
    client: RawClient, member: Member, name: str
) -> None:
    produce(client, name)
    assert member.fetch() == [(0, 9, 1)]
    member.session_epoch = INITIAL
    assert member.fetch(wait_ms=NOBODY_WAITS) == []
    assert member.settle((0, 9, ACCEPT)) == ErrorCode.NONE


def test_the_number_of_sessions_is_limited(name: str) -> None:
    with Broker({"group.share.max.share.sessions": "1", "num.partitions": "1"}) as broker, RawClient(broker) as client:
        topic_id = client.create(name)
        group = new_group(client)
        first = Member(client, group).join(name, topic_id)
        first.fetch(wait_ms=NOBODY_WAITS)
        second = Member(client, group).join(name, topic_id)
        assert error_of(second.ask()) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        first.acknowledge(epoch=FINAL)
        assert error_of(second.ask(wait_ms=NOBODY_WAITS)) == ErrorCode.NONE


def test_partitions_of_a_session_may_be_forgotten(client: RawClient, name: str) -> None:
    from headwater.protocol.messages.shares.share_fetch import ForgottenTopic

    topic_id = client.create(name, partitions=2)
    member = Member(client, new_group(client)).join(name, topic_id)
    member.fetch(partitions=(0, 1), wait_ms=NOBODY_WAITS)
    produce(client, name, partition=0)
    produce(client, name, 5, partition=1)
    forgotten = [ForgottenTopic(topic_id=topic_id, partitions=[0])]
    assert member.fetch(forgotten_topics_data=forgotten) == [(0, 4, 1)]


def test_partitions_take_turns(client: RawClient, name: str) -> None:
    topic_id = client.create(name, partitions=2)
    for partition, count in ((0, 10), (0, 10), (1, 5)):
        produce(client, name, count, partition=partition)
    member = Member(client, new_group(client)).join(name, topic_id)
    member.fetch(partitions=(0, 1), wait_ms=NOBODY_WAITS)
    assert sorted(member.fetch(records_max=1) + member.fetch(records_max=1)) == [(0, 4, 1), (0, 9, 1)]


# -- what cannot be fetched


def codes(member: Member, partitions: Sequence[int] = (0,)) -> list[int]:
    response = member.ask(partitions=partitions, wait_ms=NOBODY_WAITS)
    assert response.error_code == ErrorCode.NONE
    return [each.error_code for topic in response.responses for each in topic.partitions]


def test_unknown_topics_and_partitions_have_errors_of_their_own(client: RawClient, member: Member, name: str) -> None:
    assert codes(member, (7, -1)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    member.topic_id, member.session_epoch = uuid4(), INITIAL
    assert codes(member) == [ErrorCode.UNKNOWN_TOPIC_ID]
    response = member.ask({0: batches((0, 0, ACCEPT))}, wait_ms=NOBODY_WAITS)
    assert [each.acknowledge_error_code for topic in response.responses for each in topic.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_ID
    ]


def test_nobody_begins_with_a_partition_that_no_member_of_the_group_reads(
    broker: Broker, client: RawClient, member: Member, name: str
) -> None:
    stranger = Member(client, f"unknown-{uuid4().hex}")
    stranger.topic_id = member.topic_id
    assert codes(stranger) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    shares = broker.node.broker.shares
    assert not on_loop(
        broker,
        lambda: [
            each for machine in shares.machines() for each in machine.partitions if each.group_id == stranger.group
        ],
    )


# -- where a group begins, and what it is given


def test_a_group_begins_at_the_end_unless_it_is_told_otherwise(client: RawClient, name: str, topic_id: UUID) -> None:
    produce(client, name)
    group = new_group(client, share_auto_offset_reset="latest")
    member = Member(client, group).join(name, topic_id)
    member.fetch(wait_ms=100)
    produce(client, name, 3)
    assert member.fetch() == [(10, 12, 1)]


def test_a_group_may_begin_at_a_time(client: RawClient, name: str, topic_id: UUID) -> None:
    produce(client, name, 4)
    group = new_group(client, share_auto_offset_reset="by_duration:P9999D")
    assert Member(client, group).join(name, topic_id).fetch() == [(0, 3, 1)]


def test_aborted_and_open_transactions_are_left_out_if_the_group_wants_committed_records(
    client: RawClient, name: str, topic_id: UUID
) -> None:
    first, second = init(client, f"t-{uuid4().hex}"), init(client, f"t-{uuid4().hex}")
    written(client, first, name, b"a", b"b")
    ended(client, first, commit=False)
    written(client, second, name, b"c")
    produce(client, name, 2)
    strict = Member(client, new_group(client, share_isolation_level="read_committed")).join(name, topic_id)
    assert strict.fetch(wait_ms=100) == [], "the open transaction holds back what comes after it"
    ended(client, second)
    assert strict.fetch() == [(3, 5, 1)]
    assert strict.settle((3, 5, ACCEPT)) == ErrorCode.NONE
    assert offsets_of(client, strict.group)[name, 0][1] <= 1, "control records are done with"

    lax = Member(client, new_group(client)).join(name, topic_id)
    assert lax.fetch() + lax.fetch(wait_ms=NOBODY_WAITS) == [(0, 1, 1), (3, 5, 1)]


def test_records_that_were_deleted_are_passed_over(
    broker: Broker, client: RawClient, member: Member, name: str
) -> None:
    produce(client, name)
    produce(client, name)
    assert member.fetch(records_max=1) == [(0, 9, 1)]
    broker.call(broker.node.broker.delete_records(name, 0, 15))
    assert member.fetch() == [(15, 19, 1)]
    assert member.settle((0, 9, ACCEPT)) == ErrorCode.NONE, "there is nothing left to acknowledge"
    assert offsets_of(client, member.group) == {(name, 0): (15, 5)}
