"""Fetch sessions in isolation and over the wire, and the waits and limits of a fetch."""

from uuid import UUID

import pytest

from headwater.clock import ManualClock
from headwater.errors import ErrorCode, Refusal
from headwater.listeners.kafka import fetch_sessions
from headwater.listeners.kafka.fetch_sessions import EPOCH_MAX, EVICTION_MS, FetchPlan, FetchSessions
from headwater.protocol.messages.records.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually, on_loop
from tests.support.kafka.raw_client import RawClient, batch_of, fetch_request, records_of

FIRST, SECOND = UUID(int=1), UUID(int=2)


def asks(
    offsets: dict[UUID, dict[int, int]] | dict[str, dict[int, int]],
    session: tuple[int, int] = (0, 0),
    forgotten: dict[UUID, list[int]] | None = None,
) -> FetchRequest:
    return fetch_request(
        offsets,
        session_id=session[0],
        session_epoch=session[1],
        forgotten_topics_data=[
            ForgottenTopic(topic_id=topic, partitions=indexes) for topic, indexes in (forgotten or {}).items()
        ],
    )


def offsets_of(plan: FetchPlan) -> dict[tuple[object, int], int]:
    return {(one.topic, one.index): one.offset for one in plan.partitions}


def opened(sessions: FetchSessions, offsets: dict[UUID, dict[int, int]]) -> int:
    session = sessions.begin(asks(offsets), uses_topic_ids=True).session
    assert session is not None
    return session.id


def refusal(sessions: FetchSessions, request: FetchRequest, *, uses_topic_ids: bool = True) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        sessions.begin(request, uses_topic_ids=uses_topic_ids)
    return refused.value.code


# -- in isolation


def test_a_session_remembers_its_partitions_and_applies_changes() -> None:
    sessions = FetchSessions(10, ManualClock())
    session_id = opened(sessions, {FIRST: {0: 10, 1: 20}, SECOND: {0: 30}})

    changed = asks({FIRST: {1: 25, 2: 5}}, (session_id, 1), forgotten={SECOND: [0], FIRST: [7]})
    second = sessions.begin(changed, uses_topic_ids=True)
    third = sessions.begin(asks({}, (session_id, 2)), uses_topic_ids=True)

    assert second.is_incremental
    assert offsets_of(second) == offsets_of(third) == {(FIRST, 0): 10, (FIRST, 1): 25, (FIRST, 2): 5}


def test_a_wrong_session_epoch_is_refused_without_harm_to_the_session() -> None:
    sessions = FetchSessions(10, ManualClock())
    session_id = opened(sessions, {FIRST: {0: 10}})

    assert refusal(sessions, asks({}, (session_id + 1, 1))) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refusal(sessions, asks({FIRST: {0: 99}}, (session_id, 2))) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refusal(sessions, asks({}, (session_id, 1)), uses_topic_ids=False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert offsets_of(sessions.begin(asks({}, (session_id, 1)), uses_topic_ids=True)) == {(FIRST, 0): 10}
    assert refusal(sessions, asks({}, (session_id, 1))) is ErrorCode.INVALID_FETCH_SESSION_EPOCH, (
        "an epoch is used once"
    )


def test_the_session_epoch_wraps_to_one() -> None:
    sessions = FetchSessions(10, ManualClock())
    session_id = opened(sessions, {FIRST: {0: 0}})
    session = sessions._sessions[session_id]
    session.epoch = EPOCH_MAX

    sessions.begin(asks({}, (session_id, EPOCH_MAX)), uses_topic_ids=True)

    assert session.epoch == 1, "0 would begin a new session"


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(epoch: int) -> None:
    sessions = FetchSessions(10, ManualClock())
    session_id = opened(sessions, {FIRST: {0: 0}})

    plan = sessions.begin(asks({FIRST: {0: 7}}, (session_id, epoch)), uses_topic_ids=True)

    assert offsets_of(plan) == {(FIRST, 0): 7}
    assert not plan.is_incremental
    assert (plan.session is None) is (epoch == -1)
    assert len(sessions) == (1 if epoch == 0 else 0)
    assert refusal(sessions, asks({}, (session_id, 1))) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_ends() -> None:
    sessions = FetchSessions(10, ManualClock())
    session_id = opened(sessions, {FIRST: {0: 0}})

    plan = sessions.begin(asks({}, (session_id, 1), forgotten={FIRST: [0]}), uses_topic_ids=True)

    assert (plan.session, plan.partitions, len(sessions)) == (None, [], 0)


def test_a_fetch_without_partitions_opens_no_session() -> None:
    sessions = FetchSessions(10, ManualClock())
    assert sessions.begin(asks({}), uses_topic_ids=True).session is None


def test_the_least_recently_used_session_is_evicted_unless_it_is_in_use() -> None:
    clock = ManualClock()
    sessions = FetchSessions(2, clock)
    oldest = opened(sessions, {FIRST: {0: 0}})
    older = opened(sessions, {FIRST: {0: 0}})
    assert sessions.begin(asks({FIRST: {0: 0}}), uses_topic_ids=True).session is None, "both are in use"

    clock.advance(EVICTION_MS)
    sessions.begin(asks({}, (oldest, 1)), uses_topic_ids=True)
    opened(sessions, {FIRST: {0: 0}})

    assert len(sessions) == 2
    assert refusal(sessions, asks({}, (older, 1))) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.begin(asks({}, (oldest, 2)), uses_topic_ids=True).session is not None


def test_a_broker_without_slots_has_no_sessions() -> None:
    sessions = FetchSessions(0, ManualClock())
    plan = sessions.begin(asks({FIRST: {0: 3}}), uses_topic_ids=True)
    assert plan.session is None
    assert offsets_of(plan) == {(FIRST, 0): 3}


def test_the_partitions_of_all_sessions_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 3)
    clock = ManualClock()
    sessions = FetchSessions(10, clock)
    opened(sessions, {FIRST: {0: 0, 1: 0}})
    plan = sessions.begin(asks({FIRST: {2: 5, 3: 6}}), uses_topic_ids=True)
    assert plan.session is None
    assert offsets_of(plan) == {(FIRST, 2): 5, (FIRST, 3): 6}, "it is served all the same"

    clock.advance(fetch_sessions.EVICTION_MS)
    session_id = opened(sessions, {FIRST: {2: 5, 3: 6}})
    grown = asks({FIRST: {7: 0, 8: 0}}, (session_id, 1))
    assert sessions.begin(grown, uses_topic_ids=True).session is None, "one that grows too large ends"
    assert len(sessions) == 0


def test_served_partitions_move_to_the_end_of_the_order() -> None:
    sessions = FetchSessions(10, ManualClock())
    session_id = opened(sessions, {FIRST: {0: 0, 1: 0, 2: 0}})
    session = sessions._sessions[session_id]

    session.rotate([(FIRST, 0), (FIRST, 9)])

    order = sessions.begin(asks({}, (session_id, 1)), uses_topic_ids=True).partitions
    assert [one.index for one in order] == [1, 2, 0]


def data(**options: object) -> PartitionData:
    values: dict[str, object] = {"partition_index": 0, "high_watermark": 5, "log_start_offset": 0, "records": b""}
    return PartitionData(**(values | options))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("change", "is_news"),
    [
        ({}, False),
        ({"records": b"x"}, True),
        ({"high_watermark": 6}, True),
        ({"log_start_offset": 1}, True),
        ({"error_code": 3}, True),
        ({"diverging_epoch": EpochEndOffset(epoch=0, end_offset=0)}, True),
    ],
)
def test_an_incremental_response_has_only_changed_partitions(change: dict[str, object], is_news: bool) -> None:
    sessions = FetchSessions(10, ManualClock())
    (partition,) = sessions.begin(asks({FIRST: {0: 0}}), uses_topic_ids=True).partitions

    assert partition.has_news(data())
    assert partition.has_news(data(**change)) is is_news


def test_an_error_is_repeated_while_it_lasts_and_its_end_is_reported() -> None:
    sessions = FetchSessions(10, ManualClock())
    (partition,) = sessions.begin(asks({FIRST: {0: 0}}), uses_topic_ids=True).partitions
    partition.has_news(data())

    failed = data(error_code=3, high_watermark=-1, log_start_offset=-1)
    assert partition.has_news(failed)
    assert partition.has_news(failed)
    assert partition.has_news(data())
    assert not partition.has_news(data())


# -- over the wire


def indexes(response: FetchResponse) -> list[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions]


def values(response: FetchResponse) -> list[bytes | None]:
    return [record.value for topic in response.responses for data in topic.partitions for record in records_of(data)]


@pytest.mark.parametrize("version", [7, 12, 13, 17])
def test_an_incremental_fetch_returns_only_partitions_with_changes(client: RawClient, name: str, version: int) -> None:
    topic_id = client.create(name, partitions=3)
    by_id = version >= 13

    def ask(offsets: dict[int, int], session: tuple[int, int]) -> FetchResponse:
        topics = ({topic_id: offsets} if by_id else {name: offsets}) if offsets else {}
        return client.ask(asks(topics, session), FetchResponse, version)

    full = ask({0: 0, 1: 0, 2: 0}, (0, 0))
    assert indexes(full) == [0, 1, 2]
    assert full.session_id > 0
    assert indexes(ask({}, (full.session_id, 1))) == [], "nothing happened"

    client.produce(name, batch_of(b"new"), partition=1)
    told = ask({}, (full.session_id, 2))
    assert (indexes(told), values(told)) == ([1], [b"new"])
    assert told.responses[0].topic_id == (topic_id if by_id else UUID(int=0))
    assert indexes(ask({1: 1}, (full.session_id, 3))) == []


def test_an_unknown_session_is_refused_with_kafkas_codes(client: RawClient, topic: str) -> None:
    full = client.ask(asks({topic: {0: 0}}), FetchResponse, 12)

    wrong_epoch = client.ask(asks({}, (full.session_id, 5)), FetchResponse, 12)
    unknown = client.ask(asks({}, (full.session_id ^ 1, 1)), FetchResponse, 12)
    other_names = client.ask(asks({}, (full.session_id, 1)), FetchResponse, 13)

    assert ErrorCode(wrong_epoch.error_code) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ErrorCode(unknown.error_code) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ErrorCode(other_names.error_code) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert {wrong_epoch.session_id, unknown.session_id, other_names.session_id} == {0}


def test_under_a_byte_limit_every_partition_of_a_session_gets_its_turn(client: RawClient, name: str) -> None:
    topic_id = client.create(name, partitions=4)
    for partition in range(4):
        for _ in range(4):
            client.produce(name, batch_of(bytes(1000)), partition=partition)
    response = client.ask(
        fetch_request({topic_id: dict.fromkeys(range(4), 0)}, max_bytes=1, session_epoch=0), FetchResponse, 13
    )
    served = [index for index in indexes(response) if response.responses[0].partitions[index].records]
    for epoch in range(1, 4):
        request = fetch_request({}, max_bytes=1, session_id=response.session_id, session_epoch=epoch)
        partitions = client.ask(request, FetchResponse, 13).responses[0].partitions
        served += [data.partition_index for data in partitions if data.records]

    assert sorted(served) == [0, 1, 2, 3]


def test_a_deleted_topic_is_reported_within_the_session(broker: Broker, client: RawClient, name: str) -> None:
    topic_id = client.create(name)
    kept = client.create(f"{name}-kept")
    full = client.ask(asks({topic_id: {0: 0}, kept: {0: 0}}), FetchResponse, 13)
    broker.call(broker.node.broker.topics.delete(name))

    (topic,) = client.ask(asks({}, (full.session_id, 1)), FetchResponse, 13).responses

    assert (topic.topic_id, topic.partitions[0].error_code) == (topic_id, ErrorCode.UNKNOWN_TOPIC_ID)


# -- waits and limits


def test_a_fetch_waits_until_there_are_enough_bytes(broker: Broker, client: RawClient, topic: str) -> None:
    size = len(batch_of(bytes(100)))
    partition = broker.node.broker.partition(topic, 0)
    with RawClient(broker) as waiting:
        waiting.send(fetch_request({topic: {0: 0}}, wait_ms=600_000, min_bytes=2 * size + 1), 12)
        eventually(broker, lambda: partition.watchers)
        for _ in range(2):
            client.produce(topic, batch_of(bytes(100)))
        assert on_loop(broker, lambda: len(partition.watchers)) == 1

        client.produce(topic, batch_of(bytes(100)))

        _, response = waiting.receive(FetchResponse, 12)
        assert len(response.responses[0].partitions[0].records or b"") == 3 * size
    assert on_loop(broker, lambda: len(partition.watchers)) == 0


def test_a_fetch_returns_available_records_when_its_wait_expires(client: RawClient, topic: str) -> None:
    client.produce(topic, batch_of(b"little"))

    fetched = client.fetch(topic, 0, wait_ms=20, min_bytes=1_000_000)

    assert [record.value for record in records_of(fetched)] == [b"little"]


def test_an_error_in_one_partition_ends_the_wait_at_once(client: RawClient, topic: str) -> None:
    response = client.ask(fetch_request({topic: {0: 0, 7: 0}}, wait_ms=600_000), FetchResponse, 12)
    codes = {data.partition_index: data.error_code for data in response.responses[0].partitions}
    assert codes == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_fetch_returns_whole_batches_and_the_first_even_beyond_the_limit(client: RawClient, name: str) -> None:
    client.create(name, partitions=2)
    batch = batch_of(bytes(1000))
    for partition in (0, 0, 0, 1):
        client.produce(name, batch, partition=partition)

    def sizes(**options: int) -> list[int]:
        response = client.ask(fetch_request({name: {0: 0, 1: 0}}, **options), FetchResponse, 12)
        return [len(data.records or b"") // len(batch) for data in response.responses[0].partitions]

    assert sizes(max_bytes=10) == [1, 0], "one batch in all, or a consumer could never pass it"
    assert sizes(partition_bytes=10) == [1, 0]
    assert sizes(partition_bytes=2 * len(batch) + 10) == [2, 1]
    assert sizes(max_bytes=3 * len(batch)) == [3, 0]
    assert sizes() == [3, 1]


def test_the_broker_bounds_the_size_of_one_fetch(name: str) -> None:
    with Broker({"fetch.max.bytes": "1024"}) as broker, RawClient(broker) as client:
        client.create(name)
        for _ in range(3):
            client.produce(name, batch_of(bytes(500)))
        assert len(records_of(client.fetch(name, 0))) == 1


def test_a_fetch_beyond_a_diverged_epoch_returns_the_point_of_divergence(client: RawClient, topic: str) -> None:
    client.produce(topic, batch_of(b"only"))

    def ask(offset: int, *, leader_epoch: int = -1, last_epoch: int = -1) -> PartitionData:
        partition = FetchPartition(
            partition=0,
            fetch_offset=offset,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=1000,
        )
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[partition])])
        return client.ask(request, FetchResponse, 12).responses[0].partitions[0]

    assert ask(1, last_epoch=0).diverging_epoch == EpochEndOffset()
    parted = ask(9, last_epoch=0)
    assert parted.diverging_epoch == EpochEndOffset(epoch=0, end_offset=1)
    assert not parted.records
    assert ask(0, leader_epoch=0).error_code == ErrorCode.NONE
    assert ask(0, leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
