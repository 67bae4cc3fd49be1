"""Batches in flight: lost acknowledgements, retriable and fatal refusals, sequence numbers."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import Consumer
from headwater.client.delivery import DeliveredBatch
from headwater.client.errors import ClientError, ConnectionLost, Refused
from headwater.client.offsets import LATEST, list_offsets
from headwater.client.producer import Producer
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches import batch
from headwater.protocol.messages.records.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.protocol.wire.codec import Request, Response
from headwater.testing import Broker
from tests.support.client.scripted import Relay, Script, ScriptedBroker, leading, patient

PRODUCE_KEY = 0


def new_topic(cluster: Cluster, partition_count: int = 1, **settings: str) -> str:
    name = f"t-{uuid4().hex}"
    values = {key.replace("_", "."): value for key, value in settings.items()}
    Admin(cluster).create_topic(name, partition_count=partition_count, settings=values)
    return name


def partition_zero(topic: str) -> TopicPartition:
    return TopicPartition(TopicName(topic), 0)


# -- connections that break


@contextmanager
def relayed(count: int) -> Generator[tuple[Broker, Relay, Cluster]]:
    """A broker behind a relay that drops every `count`-th produce response, after the broker has written the batch."""
    with Relay() as relay, Broker({"advertised.listeners": str(relay.endpoint)}) as broker:
        answers = 0

        def drops(key: int, _: bytes) -> bool:
            nonlocal answers
            answers += key == PRODUCE_KEY
            return key == PRODUCE_KEY and answers % count == 0

        relay.target = Endpoint.parse(f"127.0.0.1:{broker.node.addresses['kafka'].port}")
        relay.drops = drops
        with patient(str(relay.endpoint)) as cluster:
            yield broker, relay, cluster


@pytest.mark.parametrize("count", [2, 3])
def test_lost_acknowledgements_neither_duplicate_nor_reorder_records(count: int) -> None:
    with relayed(count) as (_, relay, cluster):
        topic = new_topic(cluster)
        with Producer(cluster, batch_records_max=10) as producer:
            for number in range(200):
                producer.send(topic, b"%d" % number)
        relay.drops = lambda _key, _answer: False
        values = [record.value for record in read_all(cluster, topic)]
    assert values == [b"%d" % number for number in range(200)]


def test_without_idempotence_a_lost_acknowledgement_duplicates_but_loses_nothing() -> None:
    with relayed(2) as (_, relay, cluster):
        topic = new_topic(cluster)
        with Producer(cluster, acks=1, batch_records_max=10) as producer:
            for number in range(40):
                producer.send(topic, b"%d" % number)
        relay.drops = lambda _key, _answer: False
        values = [record.value for record in read_all(cluster, topic)]
    assert list(dict.fromkeys(values)) == [b"%d" % number for number in range(40)]


def read_all(cluster: Cluster, topic: str) -> list[batch.Record]:
    partition = partition_zero(topic)
    end = list_offsets(cluster, [partition], LATEST)[partition]
    consumer = Consumer(cluster, {partition: 0})
    records: list[batch.Record] = []
    while consumer.positions[partition] < end:
        for fetched in consumer.fetch_batches():
            records += batch.read_records(fetched.data, fetched.header, 1_000_000)
    return records


def test_an_unreachable_broker_is_an_error_at_the_time_out() -> None:
    with ScriptedBroker() as scripted:
        scripted.scripts[MetadataRequest] = leading({"orders": 1}, {1: scripted.endpoint})
        scripted.scripts[InitProducerIdRequest] = lambda _: InitProducerIdResponse(producer_id=1)
        scripted.scripts[ProduceRequest] = lambda _: None
        with patient(scripted.bootstrap) as cluster:
            producer = Producer(cluster, timeout_ms=0)
            producer.send("orders", b"v")
            with pytest.raises(ConnectionLost):
                producer.flush()
            # The failed records are discarded, so there is nothing left to send.
            producer.flush()
            assert producer._delivery._sequences == {}


# -- answers that only a script gives


def answer(code: ErrorCode = ErrorCode.NONE, **options: object) -> Callable[[Request], ProduceResponse]:
    def script(request: Request) -> ProduceResponse:
        assert isinstance(request, ProduceRequest)
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[
                        PartitionProduceResponse(index=data.index, error_code=code, base_offset=5, **options)  # pyright: ignore[reportArgumentType]
                        for data in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    return script


def one_after_another(*scripts: Script) -> Script:
    """Use each script once, and the last one from then on."""
    coming = iter(scripts)

    def script(request: Request) -> Response | bytes | None:
        following = next(coming, scripts[-1])
        return following(request)

    return script


@contextmanager
def scripted_answers(*answers: Script) -> Generator[tuple[ScriptedBroker, Cluster]]:
    """A broker that answers produce requests by these scripts in turn."""
    ids = iter(range(1, 100))
    with ScriptedBroker() as broker:
        broker.scripts[MetadataRequest] = leading({"orders": 2}, {1: broker.endpoint})
        broker.scripts[InitProducerIdRequest] = lambda _: InitProducerIdResponse(producer_id=next(ids))
        broker.scripts[ProduceRequest] = one_after_another(*answers)
        with patient(broker.bootstrap) as cluster:
            yield broker, cluster


def sequences(broker: ScriptedBroker) -> list[tuple[int, int, int]]:
    """Producer id, first and last sequence of every batch that arrived."""
    found: list[tuple[int, int, int]] = []
    for request in broker.sent(ProduceRequest):
        assert isinstance(request, ProduceRequest)
        for topic in request.topic_data:
            for data in topic.partition_data:
                header = batch.read_header(data.records or b"")
                found.append((header.producer_id, header.base_sequence, header.last_sequence))
    return found


def test_a_batch_with_a_retriable_refusal_is_sent_again_with_the_same_sequence() -> None:
    with scripted_answers(
        answer(ErrorCode.NOT_LEADER_OR_FOLLOWER), answer(ErrorCode.NOT_ENOUGH_REPLICAS), lambda _: None, answer()
    ) as (broker, cluster):
        with Producer(cluster) as producer:
            producer.send("orders", b"1", partition=0)
            producer.send("orders", b"2", partition=0)
        assert sequences(broker) == [(1, 0, 1)] * 4


def test_a_duplicate_unknown_to_the_broker_is_an_error() -> None:
    delivered: list[DeliveredBatch] = []
    with scripted_answers(answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)) as (_, cluster):
        producer = Producer(cluster, on_delivered=delivered.append)
        producer.send("orders", b"1")
        with pytest.raises(Refused, match="DUPLICATE_SEQUENCE_NUMBER"):
            producer.flush()
        assert delivered == []


def test_batches_behind_a_failed_one_are_sent_again_after_it() -> None:
    with scripted_answers(
        answer(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        answer(),
    ) as (broker, cluster):
        with Producer(cluster, batch_records_max=1) as producer:
            for _ in range(3):
                producer.send("orders", b"v", partition=0)
        assert sequences(broker) == [(1, 0, 0), (1, 1, 1), (1, 2, 2)] * 2


def test_a_persistent_sequence_gap_is_an_error_and_a_new_producer_id_starts_at_zero() -> None:
    with scripted_answers(*[answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)] * 2, answer()) as (broker, cluster):
        producer = Producer(cluster)
        producer.send("orders", b"v", partition=0)
        with pytest.raises(Refused, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            producer.flush()
        producer.send("orders", b"v", partition=0)
        producer.close()
        assert sequences(broker) == [(1, 0, 0), (1, 0, 0), (2, 0, 0)]


def test_the_reason_of_the_broker_for_a_refused_record_is_reported() -> None:
    reason = answer(
        ErrorCode.INVALID_RECORD,
        record_errors=[BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="record 0 smells")],
    )
    with scripted_answers(reason) as (_, cluster):
        producer = Producer(cluster)
        producer.send("orders", b"v", partition=1)
        with pytest.raises(Refused, match=r"1 records for orders-1: record 0 smells \(INVALID_RECORD\)"):
            producer.flush()


def test_a_response_that_leaves_out_a_partition_is_an_error() -> None:
    with scripted_answers(lambda _: ProduceResponse(responses=[])) as (_, cluster):
        producer = Producer(cluster)
        producer.send("orders", b"v", partition=0)
        with pytest.raises(ClientError, match="leaves out orders-0"):
            producer.flush()


def test_a_batch_waits_until_its_partition_has_a_leader_again() -> None:
    with scripted_answers(answer()) as (broker, cluster):
        healthy = broker.scripts[MetadataRequest]
        producer = Producer(cluster)
        producer.send("orders", b"v", partition=0)
        cluster.forget(["orders"])
        broker.scripts[MetadataRequest] = one_after_another(
            leading({"orders": 2}, {-1: broker.endpoint}),
            leading({"orders": 2}, {1: Endpoint("127.0.0.1", 1)}),
            healthy,
        )
        producer.close()
        assert len(sequences(broker)) == 1


def test_sequences_wrap_around_to_zero() -> None:
    with scripted_answers(answer()) as (broker, cluster):
        producer = Producer(cluster)
        producer._delivery._sequences[partition_zero("orders")] = 2**31 - 2
        for _ in range(3):
            producer.send("orders", b"v", partition=0)
        producer.flush()
        producer.send("orders", b"v", partition=0)
        producer.close()
        assert sequences(broker) == [(1, 2**31 - 2, 0), (1, 1, 1)]
