"""Staged writes and published batches against a real broker, as real consumers read them."""

import time
from pathlib import Path
from uuid import uuid4

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.delivery import DeliveredBatch, EncodedBatch
from headwater.client.errors import ClientError, Refused
from headwater.client.transactions.admin import TransactionAdmin
from headwater.client.transactions.staging import (
    REQUEST_BYTES_MAX,
    OutdatedBatch,
    PublishResult,
    StagedWriter,
    StagingWriter,
    WriterFenced,
    publish,
    supports_publish,
)
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition, staging_id
from headwater.protocol.batches import batch, records
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest
from headwater.protocol.messages.cluster.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.messages.transactions.publish_batch import PublishBatchRequest, PublishBatchResponse
from headwater.testing import Broker
from tests.support.broker.processes import BrokerProcess
from tests.support.client.scripted import Relay, ScriptedBroker, leading, patient
from tests.support.kafka.raw_client import Reachable
from tests.support.kafka.topic_contents import DEADLINE_S, high_watermark, last_stable_offset, read

PARTITIONS = 2
NOW_MS = 1_700_000_000_000
PUBLISH_KEY = 10_000


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return new_topic(cluster)


@pytest.fixture
def application() -> str:
    return f"app-{uuid4().hex}"


def new_topic(cluster: Cluster, **settings: str) -> str:
    name = f"sink-{uuid4().hex}"
    values = {key.replace("_", "."): value for key, value in settings.items()}
    Admin(cluster).create_topic(name, partition_count=PARTITIONS, settings=values)
    return name


def place(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


def encoded(where: TopicPartition, *values: bytes) -> EncodedBatch:
    rows = [Record(index, NOW_MS + index, b"key", value) for index, value in enumerate(values)]
    payload = records.encode(rows, 0, NOW_MS, batch.HEADER_SIZE)
    return EncodedBatch(where, payload, len(rows), NOW_MS, NOW_MS + len(rows) - 1)


def staged(cluster: Cluster, application: str, task: str, topic: str, *values: bytes) -> StagedWriter:
    """Stage one value in each partition in turn."""
    writer = StagingWriter(cluster, staging_id(application, task))
    writer.write(encoded(place(topic, index % PARTITIONS), value) for index, value in enumerate(values))
    written = writer.flush()
    assert written is not None
    return written


def write_on(writer: StagingWriter, topic: str) -> None:
    writer.write(encoded(place(topic, partition), b"late") for partition in range(PARTITIONS))
    writer.flush()


def committed(broker: Reachable, topic: str) -> list[bytes]:
    """Values that a librdkafka consumer reads with read_committed, once no transaction is open any more."""
    deadline = time.monotonic() + DEADLINE_S
    for partition in range(PARTITIONS):
        while last_stable_offset(broker, topic, partition) < high_watermark(broker, topic, partition):
            assert time.monotonic() < deadline, "a transaction stays open"
    found = read(broker, topic, PARTITIONS)
    return sorted(copy.value for copies in found.values() for copy in copies)


def state(cluster: Cluster, transactional_id: str) -> str:
    return TransactionAdmin(cluster).describe_transaction(transactional_id).state


# -- batches


def test_rows_of_several_writers_become_visible_together(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    writers = [staged(cluster, application, f"{task}-0", topic, b"%d" % task, b"%d" % task) for task in range(4)]
    assert [copy for copies in read(broker, topic, PARTITIONS).values() for copy in copies] == []

    assert publish(cluster, application, 0, writers) == PublishResult(is_replay=False, published_batch_id=0)
    assert committed(broker, topic) == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]


def test_successive_batches_under_the_same_ids_each_appear_once(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    for batch_id in range(5):
        writers = [staged(cluster, application, f"{task}-0", topic, b"%d" % batch_id, b"x") for task in range(2)]
        for _ in range(2):
            published = publish(cluster, application, batch_id, writers)
            assert published.published_batch_id == batch_id

    assert committed(broker, topic) == sorted([b"%d" % (each // 2) for each in range(10)] + [b"x"] * 10)


def test_a_replay_is_recognized_and_its_rows_stay_hidden(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    publish(cluster, application, 7, [staged(cluster, application, "0-0", topic, b"once")])
    again = staged(cluster, application, "0-0", topic, b"once")

    assert publish(cluster, application, 7, [again]) == PublishResult(is_replay=True, published_batch_id=7)
    assert committed(broker, topic) == [b"once"]


def test_an_older_batch_is_refused(cluster: Cluster, topic: str, application: str) -> None:
    publish(cluster, application, 7, [])
    writer = staged(cluster, application, "0-0", topic, b"old")

    with pytest.raises(OutdatedBatch, match="published batch 7 already, 6 is older"):
        publish(cluster, application, 6, [writer])
    assert state(cluster, writer.transactional_id) == "Ongoing"


def test_an_abort_hides_staged_rows_and_records_no_batch(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    writer = staged(cluster, application, "0-0", topic, b"never")

    assert publish(cluster, application, 3, [writer], committed=False) == PublishResult(False, None)
    assert committed(broker, topic) == []
    with pytest.raises(Refused, match="is aborted"):
        publish(cluster, application, 3, [writer])


def test_an_abort_after_the_publish_changes_nothing(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    writer = staged(cluster, application, "0-0", topic, b"kept")
    publish(cluster, application, 3, [writer])

    assert publish(cluster, application, 3, [writer], committed=False) == PublishResult(False, 3)
    assert committed(broker, topic) == [b"kept"]


def test_speculative_duplicates_are_aborted_with_the_batch_and_fenced(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    winner = staged(cluster, application, "0-0", topic, b"row")
    loser = StagingWriter(cluster, staging_id(application, "0-1"))
    loser.write([encoded(place(topic), b"row")])
    loser.flush()
    publish(cluster, application, 0, [winner])

    with pytest.raises(WriterFenced, match="lost its place"):
        write_on(loser, topic)
    with pytest.raises(WriterFenced):
        loser.flush()
    assert committed(broker, topic) == [b"row"]


def test_a_published_writer_cannot_write_more(broker: Broker, cluster: Cluster, topic: str, application: str) -> None:
    zombie = StagingWriter(cluster, staging_id(application, "0-0"))
    zombie.write_records(place(topic), [Record(0, NOW_MS, b"key", b"row")])
    written = zombie.flush()
    assert written is not None
    publish(cluster, application, 0, [written])
    assert committed(broker, topic) == [b"row"]

    with pytest.raises(WriterFenced):
        write_on(zombie, topic)
    assert committed(broker, topic) == [b"row"]


def test_a_repeated_attempt_fences_the_previous_one(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    lost = staged(cluster, application, "0-0", topic, b"lost")
    repeated = staged(cluster, application, "0-0", topic, b"repeated")

    with pytest.raises(Refused) as refusal:
        publish(cluster, application, 0, [lost])
    assert refusal.value.code is ErrorCode.PRODUCER_FENCED
    publish(cluster, application, 0, [repeated])
    assert committed(broker, topic) == [b"repeated"]


def test_an_orphaned_transaction_is_aborted_at_its_time_out(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    writer = StagingWriter(cluster, staging_id(application, "0-0"), timeout_ms=100)
    writer.write([encoded(place(topic), b"orphan")])
    orphan = writer.flush()
    assert orphan is not None
    assert committed(broker, topic) == []

    with pytest.raises(Refused, match="longer than its time-out of 100 ms"):
        publish(cluster, application, 0, [orphan])
    with pytest.raises(WriterFenced, match="longer than 100 ms"):
        write_on(writer, topic)


# -- writers


def test_a_writer_without_rows_starts_no_transaction(cluster: Cluster, topic: str, application: str) -> None:
    writer = StagingWriter(cluster, staging_id(application, "0-0"))
    writer.write([])
    writer.write([encoded(place(topic))])
    writer.write_records(place(topic), [])

    assert (writer.flush(), writer.identity) == (None, None)
    writer.abort()
    with pytest.raises(ClientError):
        state(cluster, staging_id(application, "0-0"))


def test_aborting_a_writer_aborts_its_transaction_at_once(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    writer = StagingWriter(cluster, staging_id(application, "0-0"))
    writer.write([encoded(place(topic), b"never")])
    writer.flush()
    writer.abort()

    assert committed(broker, topic) == []
    with pytest.raises(ClientError, match="was aborted"):
        writer.write([encoded(place(topic), b"later")])


@pytest.mark.parametrize("codec", list(Codec))
def test_encoded_batches_and_single_records_of_a_writer_keep_their_order(
    broker: Broker, cluster: Cluster, topic: str, application: str, codec: Codec
) -> None:
    told: list[DeliveredBatch] = []
    writer = StagingWriter(cluster, staging_id(application, "0-0"), codec=codec, on_delivered=told.append)
    writer.write(encoded(place(topic), b"%d" % number, b"and") for number in range(20))
    writer.write_records(place(topic), [Record(0, NOW_MS, b"key", b"last")])
    written = writer.flush()
    assert written is not None
    publish(cluster, application, 0, [written])
    committed(broker, topic)

    values = [copy.value for copy in read(broker, topic, PARTITIONS)[0]]
    assert values == [value for number in range(20) for value in (b"%d" % number, b"and")] + [b"last"]
    assert [each.record_count for each in told] == [2] * 20 + [1]


def test_a_batch_that_is_too_large_for_its_topic_is_split(broker: Broker, cluster: Cluster, application: str) -> None:
    topic = new_topic(cluster, max_message_bytes="500")
    values = [b"%02d" % number * 50 for number in range(10)]
    writer = StagingWriter(cluster, staging_id(application, "0-0"))
    writer.write([encoded(place(topic), *values), encoded(place(topic), b"after")])
    written = writer.flush()
    assert written is not None
    publish(cluster, application, 0, [written])

    assert committed(broker, topic) == [*values, b"after"]


def test_a_large_write_is_sent_in_several_requests(
    broker: Broker, cluster: Cluster, topic: str, application: str
) -> None:
    large = b"x" * (REQUEST_BYTES_MAX // 16)
    writer = StagingWriter(cluster, staging_id(application, "0-0"))
    writer.write(encoded(place(topic, number % PARTITIONS), large) for number in range(20))
    written = writer.flush()
    assert written is not None
    publish(cluster, application, 0, [written])

    assert committed(broker, topic) == [large] * 20


def test_a_writer_that_failed_stays_failed(cluster: Cluster, topic: str, application: str) -> None:
    writer = StagingWriter(cluster, staging_id(application, "0-0"))
    for _ in range(2):
        with pytest.raises(ClientError, match="partitions 0 to 1, not 9"):
            writer.write([encoded(place(topic, 9), b"nowhere")])
    too_long = StagingWriter(cluster, staging_id(application, "1-0"), timeout_ms=2**31 - 1)
    with pytest.raises(Refused, match=r"transaction\.max\.timeout\.ms"):
        too_long.write([encoded(place(topic), b"row")])


# -- brokers


def test_publishing_is_supported_only_if_the_broker_offers_the_api(cluster: Cluster, application: str) -> None:
    assert supports_publish(cluster)
    with ScriptedBroker() as kafka:
        kafka.scripts[MetadataRequest] = leading({"t": 1}, {1: kafka.endpoint})
        with patient(kafka.bootstrap) as other:
            assert not supports_publish(other)
            assert len(kafka.sent(ApiVersionsRequest)) == 1


def test_a_retriable_refusal_is_retried_and_a_fatal_one_raised() -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.POLICY_VIOLATION]

    def answer(_: object) -> PublishBatchResponse:
        code = codes.pop(0)
        return PublishBatchResponse(error_code=code, error_message=code.name)

    with ScriptedBroker({PublishBatchRequest: answer}) as scripted:
        host, port = scripted.endpoint
        found = FindCoordinatorResponse(coordinators=[Coordinator(key="app", node_id=1, host=host, port=port)])
        scripted.scripts[FindCoordinatorRequest] = lambda _: found
        with patient(scripted.bootstrap) as cluster, pytest.raises(Refused, match="POLICY_VIOLATION"):
            publish(cluster, "app", 0, [])
    assert not codes


def test_a_publish_whose_response_was_lost_is_retried_and_publishes_once(application: str) -> None:
    with Relay() as relay, Broker({"advertised.listeners": str(relay.endpoint)}) as broker:
        relay.target = Endpoint.parse(f"127.0.0.1:{broker.node.addresses['kafka'].port}")
        lost: list[int] = []

        def drops(key: int, _: bytes) -> bool:
            if key != PUBLISH_KEY or lost:
                return False
            lost.append(key)
            return True

        relay.drops = drops
        with patient(str(relay.endpoint)) as cluster:
            topic = new_topic(cluster)
            writer = staged(cluster, application, "0-0", topic, b"row")
            assert publish(cluster, application, 0, [writer]) == PublishResult(is_replay=True, published_batch_id=0)
            assert lost
            assert committed(broker, topic) == [b"row"]


def test_batches_survive_kills_of_the_broker_before_and_after_they_are_published(
    tmp_path: Path, application: str
) -> None:
    with BrokerProcess(tmp_path / "data", {"transaction.state.log.num.partitions": "4"}) as broker:
        with patient(broker.bootstrap_servers) as cluster:
            topic = new_topic(cluster)
            for batch_id in range(2):
                rows = [b"%d-%d" % (batch_id, row) for row in range(20)]
                writers = [staged(cluster, application, f"{task}-0", topic, *rows[task::4]) for task in range(4)]
                orphan = staged(cluster, application, "0-9", topic, b"orphan")
                # The first kill comes between staging and publishing,
                broker.kill()
                broker.start()
                assert not publish(cluster, application, batch_id, writers).is_replay
                # the second right after the response, when markers may still be missing.
                broker.kill()
                broker.start()
                again = staged(cluster, application, "0-0", topic, *rows)
                assert publish(cluster, application, batch_id, [again]) == PublishResult(True, batch_id)
                with pytest.raises(Refused):
                    publish(cluster, application, batch_id + 1, [orphan])

        assert committed(broker, topic) == sorted(b"%d-%d" % (each, row) for each in range(2) for row in range(20))
