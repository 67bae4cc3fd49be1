"""PublishBatch on the wire: visibility, refusals with their messages, and hostile frames."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.ids import staging_id
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.transactions.publish_batch import (
    PublishBatchRequest,
    PublishBatchResponse,
    PublishedWriter,
)
from headwater.testing import Broker
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import RawClient, frame
from tests.support.kafka.raw_transactions import (
    SETTINGS,
    TIMEOUT_MS,
    Producer,
    await_state,
    committed_values,
    describe,
    ended,
    init,
    markers,
    write,
    written,
)

PUBLISH_KEY = 10_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**SETTINGS, "headwater.publish.writers.max": "3"}) as broker:
        yield broker


@pytest.fixture
def application() -> str:
    return f"app-{uuid4().hex}"


def staged(client: RawClient, application: str, task: str, topic: str, *values: bytes) -> Producer:
    producer = init(client, staging_id(application, task))
    written(client, producer, topic, *values)
    return producer


def request_of(application: str, batch_id: int, *producers: Producer, committed: bool = True) -> PublishBatchRequest:
    return PublishBatchRequest(
        application_id=application,
        batch_id=batch_id,
        committed=committed,
        writers=[
            PublishedWriter(transactional_id=each.transactional_id, producer_id=each.id, producer_epoch=each.epoch)
            for each in producers
        ],
    )


def publish(
    client: RawClient, application: str, batch_id: int, *producers: Producer, committed: bool = True
) -> PublishBatchResponse:
    return client.ask(request_of(application, batch_id, *producers, committed=committed), PublishBatchResponse, 0)


def test_publish_batch_is_advertised_under_its_own_key(client: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    offered = client.ask(request, ApiVersionsResponse, 4).api_keys

    assert [(each.min_version, each.max_version) for each in offered if each.api_key == PUBLISH_KEY] == [(0, 0)]


def test_a_batch_becomes_visible_with_all_of_its_writers(client: RawClient, topic: str, application: str) -> None:
    writers = [staged(client, application, f"{task}-0", topic, b"%d" % task) for task in range(3)]
    assert committed_values(client, topic) == []

    assert publish(client, application, 0, *writers) == PublishBatchResponse(published_batch_id=0)
    for each in writers:
        await_state(client, each.transactional_id, "CompleteCommit")
    assert committed_values(client, topic) == [b"0", b"1", b"2"]
    assert sorted(markers(client, topic)) == sorted((each.id, each.epoch + 1, True) for each in writers)


def test_an_application_is_described_with_its_last_batch(client: RawClient, topic: str, application: str) -> None:
    writer = staged(client, application, "0-0", topic, b"row")
    publish(client, application, 41, writer)
    of_application, of_writer = describe(client, application, writer.transactional_id)

    assert (of_application.transaction_state, of_application.published_batch_id) == ("Empty", 41)
    assert of_writer.published_batch_id == -1


def test_a_replayed_batch_is_distinguished_from_a_new_one(client: RawClient, topic: str, application: str) -> None:
    publish(client, application, 1, staged(client, application, "0-0", topic, b"once"))
    again = staged(client, application, "0-0", topic, b"again")

    assert publish(client, application, 1, again) == PublishBatchResponse(is_replay=True, published_batch_id=1)
    await_state(client, again.transactional_id, "CompleteAbort")
    assert committed_values(client, topic) == [b"once"]


def test_refusals_come_with_their_reason(client: RawClient, topic: str, application: str) -> None:
    publish(client, application, 5)
    writer = staged(client, application, "0-0", topic, b"row")
    stranger = writer._replace(transactional_id=f"{application}-0")
    refusals = {
        ErrorCode.INVALID_UPDATE_VERSION: publish(client, application, 4, writer),
        ErrorCode.PRODUCER_FENCED: publish(client, application, 6, writer.earlier()),
        ErrorCode.INVALID_REQUEST: publish(client, application, 6, stranger),
        ErrorCode.POLICY_VIOLATION: publish(client, application, 6, *[writer] * 4),
    }

    for code, told in refusals.items():
        assert (told.error_code, told.is_replay, told.published_batch_id) == (code, False, -1)
        assert told.error_message
    assert committed_values(client, topic) == []
    assert publish(client, application, 6, writer).error_code == 0


def test_an_abort_is_answered_with_the_last_published_batch(client: RawClient, topic: str, application: str) -> None:
    writer = staged(client, application, "0-0", topic, b"never")

    assert publish(client, application, 0, writer, committed=False) == PublishBatchResponse()
    await_state(client, writer.transactional_id, "CompleteAbort")
    assert committed_values(client, topic) == []


def test_a_writer_may_end_its_transaction_by_itself(client: RawClient, topic: str, application: str) -> None:
    writer = staged(client, application, "0-0", topic, b"alone")
    after = ended(client, writer)

    assert publish(client, application, 0, writer).error_code == ErrorCode.PRODUCER_FENCED
    assert publish(client, application, 0, after).error_code == ErrorCode.INVALID_TXN_STATE
    assert committed_values(client, topic) == [b"alone"]


def test_a_zombie_cannot_write_where_its_writer_was_published(client: RawClient, topic: str, application: str) -> None:
    writer = staged(client, application, "0-0", topic, b"row")
    publish(client, application, 0, writer)
    await_state(client, writer.transactional_id, "CompleteCommit")

    told = write(client, writer, topic, b"late", sequence=1)
    assert told.error_code in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
    assert committed_values(client, topic) == [b"row"]


def test_a_writer_that_times_out_is_not_published(timed: Broker, clock: ManualClock, application: str) -> None:
    with RawClient(timed) as client:
        client.create("sink")
        writer = staged(client, application, "0-0", "sink", b"late")
        clock.advance(TIMEOUT_MS)
        on_loop(timed, lambda: [shard.wake() for shard in timed.node.broker.transactions.shards])
        told = publish(client, application, 0, writer)

        assert told.error_code == ErrorCode.INVALID_TXN_STATE
        assert f"{TIMEOUT_MS} ms" in (told.error_message or "")


def test_a_truncated_frame_closes_the_connection(client: RawClient, application: str) -> None:
    whole = frame(request_of(application, 0, Producer(staging_id(application, "0-0"), 1, 0)), 0)
    cut = bytearray(whole[:-8])
    cut[:4] = (len(cut) - 4).to_bytes(4, "big")
    client.socket.sendall(cut)

    assert client.is_closed()
