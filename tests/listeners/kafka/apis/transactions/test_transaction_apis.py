"""The requests of transactional producers in every version, and the error codes that each version knows."""

from collections.abc import Iterator

import pytest

from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2
from headwater.errors import ErrorCode
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.records.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from headwater.testing import Broker
from tests.support.broker.faulty_disk import FULL, FaultyDisk
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import RawClient, batch_of, produce_request
from tests.support.kafka.raw_groups import find
from tests.support.kafka.raw_transactions import (
    END_1,
    END_2,
    PRODUCE_1,
    PRODUCE_2,
    SETTINGS,
    Producer,
    add,
    add_many,
    ask_init,
    codes_of,
    committed_values,
    end,
    ended,
    fenced,
    init,
    markers,
    state,
    transaction_of,
    transactional_batch,
    values,
    write,
    written,
)

TRANSACTION = 1
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**SETTINGS, "transaction.max.timeout.ms": "100000"}) as broker:
        yield broker


def test_protocol_2_is_advertised_as_a_finalized_feature(client: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    told = client.ask(request, ApiVersionsResponse, 4)
    levels = {each.name: (each.min_version_level, each.max_version_level) for each in told.finalized_features}
    assert levels == {"group.version": (1, 1), "transaction.version": (2, 2)}
    supported = {each.name: (each.min_version, each.max_version) for each in told.supported_features}
    assert supported == {"group.version": (0, 1), "transaction.version": (0, 2)}
    assert told.finalized_features_epoch == 0


def test_supported_features_are_left_out_for_clients_that_cannot_read_a_minimum_of_zero(client: RawClient) -> None:
    """Java clients 3.3 to 3.7 send version 3 and fail with `Expected minValue >= 1, but received 0`."""
    request = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="3.4.0")
    told = client.ask(request, ApiVersionsResponse, 3)
    assert told.supported_features == []
    levels = {each.name: (each.min_version_level, each.max_version_level) for each in told.finalized_features}
    assert levels == {"group.version": (1, 1), "transaction.version": (2, 2)}


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_of_a_transactional_id_is_found(broker: Broker, client: RawClient, version: int) -> None:
    request = FindCoordinatorRequest(key="one", key_type=TRANSACTION, coordinator_keys=["one", "two"])
    told = client.ask(request, FindCoordinatorResponse, version)
    found = [told] if version < 4 else told.coordinators
    assert [(each.error_code, each.node_id) for each in found] == [(0, 1)] * (1 if version < 4 else 2)
    assert {f"{each.host}:{each.port}" for each in found} == {broker.bootstrap_servers}


def test_a_coordinator_lookup_creates_the_topic_or_reports_the_disk_error() -> None:
    disk = FaultyDisk()
    disk.cursed, disk.create_error = "__transaction_state", FULL
    request = FindCoordinatorRequest(key="one", key_type=TRANSACTION)
    with Broker(SETTINGS, disk=disk) as broker, RawClient(broker) as client:
        told = client.ask(request, FindCoordinatorResponse, 3)
        assert (told.error_code, told.node_id, told.port) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)
        assert ask_init(client, "one").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        unknown = Producer("one", 1, 0)
        assert end(client, unknown).error_code == ErrorCode.NOT_COORDINATOR
        disk.heal()
        assert client.ask(request, FindCoordinatorResponse, 3).error_code == 0
        assert end(client, unknown).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


# -- InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_each_initialization_of_an_id_raises_its_epoch(client: RawClient, transactional_id: str, version: int) -> None:
    first = init(client, transactional_id, version=version)
    assert first.epoch == 0
    assert init(client, transactional_id, version=version) == first._replace(epoch=1)
    other = init(client, f"{transactional_id}-other", version=version)
    assert (other.id != first.id, other.epoch) == (True, 0)


@pytest.mark.parametrize("version", range(3, 6))
def test_a_producer_that_names_its_identity_continues_or_is_fenced(
    client: RawClient, producer: Producer, version: int
) -> None:
    expected = (producer.id, producer.epoch)
    went_on = init(client, producer.transactional_id, expected=expected, version=version)
    assert went_on == producer._replace(epoch=1)
    assert init(client, producer.transactional_id, expected=expected, version=version) == went_on, "it asks again"

    init(client, producer.transactional_id)
    told = ask_init(client, producer.transactional_id, expected=expected, version=version)
    assert (told.error_code, told.producer_id) == (fenced(version, known_from=4), -1)


@pytest.mark.parametrize("version", range(3, 6))
@pytest.mark.parametrize("expected", [(-1, 0), (7, -1)])
@pytest.mark.parametrize("has_id", [True, False])
def test_an_incomplete_producer_identity_is_refused(
    client: RawClient, transactional_id: str, version: int, expected: tuple[int, int], has_id: bool
) -> None:
    told = ask_init(client, transactional_id if has_id else None, expected=expected, version=version)
    assert (told.error_code, told.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize("version", range(6))
def test_an_empty_id_or_a_time_out_outside_the_bounds_is_refused(
    client: RawClient, transactional_id: str, version: int
) -> None:
    refused = ask_init(client, "", version=version)
    assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)
    for timeout_ms in (-1, 0, 100_001):
        told = ask_init(client, transactional_id, timeout_ms=timeout_ms, version=version)
        assert told.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert ask_init(client, transactional_id, timeout_ms=100_000, version=version).error_code == 0


@pytest.mark.parametrize("version", range(6))
def test_a_successor_aborts_the_open_transaction(
    client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    written(client, producer, topic, b"open")
    told = ask_init(client, producer.transactional_id, version=version)
    assert told.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    successor = init(client, producer.transactional_id, version=version)
    # One epoch fences the predecessor, the next belongs to the successor.
    assert successor == producer._replace(epoch=2)
    assert markers(client, topic) == [(producer.id, 1, False)]
    assert committed_values(client, topic) == []


# -- AddPartitionsToTxn


@pytest.mark.parametrize("version", range(6))
def test_adding_partitions_is_idempotent(
    client: RawClient, name: str, topic: str, producer: Producer, version: int
) -> None:
    other = f"{name}-other"
    client.create(other, 2)
    topics = {topic: [0], other: [1, 0]}
    for _ in range(2):
        told = add_many(client, producer, topics, version=version)
        assert told == {(topic, 0): 0, (other, 1): 0, (other, 0): 0}


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added_all_or_none(client: RawClient, topic: str, producer: Producer, version: int) -> None:
    told = add_many(client, producer, {topic: [0, 1, -1], "nowhere": [0]}, version=version)
    assert told == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (topic, 1): UNKNOWN,
        (topic, -1): UNKNOWN,
        ("nowhere", 0): UNKNOWN,
    }
    assert write(client, producer, topic, b"a", version=PRODUCE_1).error_code == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize("version", range(6))
def test_internal_topics_cannot_be_added(client: RawClient, topic: str, producer: Producer, version: int) -> None:
    find(client, "group")
    own = ("__transaction_state", "__consumer_offsets")[: 2 if version < 4 else 1]
    for name in own:
        assert add_many(client, producer, {name: [0], topic: [0]}, version=version) == {
            (name, 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        }
    if version >= 4:
        # Another broker may send this request on behalf of a group.
        told = add_many(client, producer, {"__consumer_offsets": [0]}, version=version)
        assert told == {("__consumer_offsets", 0): 0}


@pytest.mark.parametrize("version", range(6))
def test_only_the_owner_of_an_id_adds_partitions(
    client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    init(client, producer.transactional_id)
    assert add(client, producer, topic, version=version) == fenced(version, known_from=2)
    for stranger in (producer._replace(id=producer.id + 999), producer._replace(transactional_id="nobody's")):
        assert add(client, stranger, topic, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert add(client, producer._replace(transactional_id=""), topic, version=version) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(4, 6))
def test_partitions_of_many_transactions_are_verified_at_once(
    client: RawClient, topic: str, name: str, producer: Producer, version: int
) -> None:
    other = f"{name}-other"
    client.create(other)
    second = init(client, f"{producer.transactional_id}-2")
    assert add(client, producer, topic) == 0
    request = AddPartitionsToTxnRequest(
        transactions=[
            transaction_of(producer, {topic: [0], other: [0]}, verify_only=True),
            transaction_of(second, {topic: [0]}),
            transaction_of(second._replace(epoch=7), {topic: [0]}, verify_only=True),
        ]
    )
    told = client.ask(request, AddPartitionsToTxnResponse, version)

    missing = ErrorCode.TRANSACTION_ABORTABLE if version >= 5 else ErrorCode.INVALID_TXN_STATE
    assert [(each.transactional_id, codes_of(each.topic_results)) for each in told.results_by_transaction] == [
        (producer.transactional_id, {(topic, 0): 0, (other, 0): missing}),
        (second.transactional_id, {(topic, 0): 0}),
        (second.transactional_id, {(topic, 0): ErrorCode.PRODUCER_FENCED}),
    ]
    assert add_many(client, second, {topic: [0]}, version=version) == {(topic, 0): 0}
    assert write(client, producer, other, b"a", version=PRODUCE_1).error_code == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize("version", range(6))
def test_the_number_of_partitions_of_a_transaction_is_bounded(version: int) -> None:
    with (
        Broker({**SETTINGS, "headwater.transaction.partitions.max": "2"}) as broker,
        RawClient(broker) as client,
    ):
        client.create("wide", 3)
        producer = init(client, "tx")
        told = add_many(client, producer, {"wide": [0, 1, 2]}, version=version)
        code = ErrorCode.TRANSACTION_ABORTABLE if version >= 5 else ErrorCode.INVALID_TXN_STATE
        assert told == {("wide", index): code for index in range(3)}
        assert add_many(client, producer, {"wide": [0, 2]}, version=version) == {("wide", 0): 0, ("wide", 2): 0}


@pytest.mark.parametrize("version", range(6))
def test_versions_above_the_clients_belong_to_protocol_2(
    broker: Broker, client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    assert add(client, producer, topic, version=version) == 0
    transactions = broker.node.broker.transactions
    stored = on_loop(
        broker,
        lambda: next(
            each
            for machine in transactions.machines()
            for key, each in machine.transactions.items()
            if key == producer.transactional_id
        ),
    )
    assert stored.protocol_version == (PROTOCOL_2 if version >= 4 else PROTOCOL_1)


# -- Produce


@pytest.mark.parametrize("version", range(3, PRODUCE_2))
def test_in_protocol_1_partitions_are_added_before_their_records(
    client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    refused = write(client, producer, topic, b"a", version=version)
    expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    assert refused.error_code == expected
    assert add(client, producer, topic) == 0
    written(client, producer, topic, b"a", version=version)
    ended(client, producer, version=END_1)
    assert committed_values(client, topic) == [b"a"]


@pytest.mark.parametrize("version", range(PRODUCE_2, 14))
def test_in_protocol_2_records_add_their_partitions(
    client: RawClient, name: str, producer: Producer, version: int
) -> None:
    topic_id = client.create(name)
    partition = PartitionProduceData(index=0, records=transactional_batch(producer, b"a"))
    request = ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=name, topic_id=topic_id, partition_data=[partition])],
    )
    told = client.ask(request, ProduceResponse, version)
    assert told.responses[0].partition_responses[0].error_code == 0
    ended(client, producer)
    assert committed_values(client, name) == [b"a"]


@pytest.mark.parametrize("version", range(3, 13))
def test_a_transactional_batch_without_a_transactional_id_or_the_reverse_is_refused(
    client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    without_id = produce_request({topic: {0: transactional_batch(producer, b"a")}})
    plain = batch_of(b"a", producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=0)
    without_mark = produce_request({topic: {0: plain}}, transactional_id=producer.transactional_id)
    for request, code in (
        (without_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (without_mark, ErrorCode.INVALID_TXN_STATE),
    ):
        told = client.ask(request, ProduceResponse, version).responses[0].partition_responses[0]
        assert (told.error_code, told.base_offset) == (code, -1)
    assert values(client, topic) == []
    assert state(client, producer.transactional_id) == "Empty", "nothing has begun"


def test_a_batch_without_a_producer_or_without_a_header_enters_no_transaction(
    client: RawClient, topic: str, producer: Producer
) -> None:
    for batch, code in (
        (batch_of(b"a"), ErrorCode.INVALID_TXN_STATE),
        (batch_of(b"a", transactional=True), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (b"too short", ErrorCode.INVALID_RECORD),
        (None, ErrorCode.INVALID_RECORD),
    ):
        request = produce_request({topic: {0: batch}}, transactional_id=producer.transactional_id)
        told = client.ask(request, ProduceResponse, PRODUCE_2).responses[0].partition_responses[0]
        assert told.error_code == code


# -- EndTxn


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_a_transaction_is_committed_or_aborted_as_requested(
    client: RawClient, topic: str, producer: Producer, version: int, is_commit: bool
) -> None:
    written(client, producer, topic, b"a", b"b")
    after = ended(client, producer, commit=is_commit, version=version)
    assert after == (producer if version < END_2 else producer._replace(epoch=1))
    assert markers(client, topic) == [(producer.id, after.epoch, is_commit)]
    assert committed_values(client, topic) == ([b"a", b"b"] if is_commit else [])
    assert values(client, topic) == [b"a", b"b"]
    # Its answer was lost: the client repeats the request.
    again = end(client, producer, commit=is_commit, version=version)
    assert again.error_code == 0
    if version >= END_2:
        assert (again.producer_id, again.producer_epoch) == (after.id, after.epoch)
    assert end(client, producer, commit=not is_commit, version=version).error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", range(6))
def test_only_the_owner_of_an_id_ends_its_transaction(
    client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    written(client, producer, topic, b"a")
    told = end(client, producer._replace(epoch=9), version=version)
    assert (told.error_code, told.producer_id) == (fenced(version, known_from=2), -1)
    for stranger in (producer._replace(id=producer.id + 999), producer._replace(transactional_id="nobody's")):
        assert end(client, stranger, version=version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    nameless = producer._replace(transactional_id="")
    assert end(client, nameless, version=version).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(6))
def test_a_commit_without_a_transaction_is_refused(client: RawClient, producer: Producer, version: int) -> None:
    assert end(client, producer, version=version).error_code == ErrorCode.INVALID_TXN_STATE
    aborted = end(client, producer, commit=False, version=version)
    if version < END_2:
        assert aborted.error_code == ErrorCode.INVALID_TXN_STATE
    else:
        assert (aborted.error_code, aborted.producer_epoch) == (0, 1), "it goes on under another epoch"
