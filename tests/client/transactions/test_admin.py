"""TransactionAdmin against scripted brokers."""

from collections.abc import Callable, Iterator

import pytest

from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError, Refused, UnknownTransactionalId, UnsupportedApi
from headwater.client.transactions.admin import TransactionAdmin
from headwater.clock import ManualClock
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from headwater.protocol.messages.transactions.describe_transactions import DescribeTransactionsRequest
from headwater.protocol.messages.transactions.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headwater.protocol.messages.transactions.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from headwater.protocol.wire.codec import Request, Response
from tests.support.client.scripted import leading, patient
from tests.support.client.scripted_transactions import ORDERS_0, ORDERS_1, ScriptedTransactions, producing

CLOCK = ManualClock()
NOW_MS = CLOCK.now_ms()
MINUTE_MS = 60_000


@pytest.fixture
def scripted() -> Iterator[ScriptedTransactions]:
    with ScriptedTransactions() as broker:
        yield broker


@pytest.fixture
def admin(scripted: ScriptedTransactions) -> Iterator[TransactionAdmin]:
    with Cluster(scripted.bootstrap, topic_wait_ms=0, clock=CLOCK, sleep=lambda _: None) as cluster:
        yield TransactionAdmin(cluster)


# -- as coordinators know them


def test_transactions_of_all_brokers_are_listed_by_name(scripted: ScriptedTransactions) -> None:
    with ScriptedTransactions() as other:
        scripted.begin("b", 2)
        other.begin("a", 1, state="Empty")
        both = leading({}, {1: scripted.endpoint, 2: other.endpoint})
        scripted.scripts[MetadataRequest] = other.scripts[MetadataRequest] = both
        with patient(scripted.bootstrap) as cluster:
            listed = TransactionAdmin(cluster).list_transactions()
    assert listed == [("a", "Empty", 1, 2), ("b", "Ongoing", 2, 1)]


def test_filters_are_sent_to_the_broker(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    scripted.begin("a", 1)
    assert admin.list_transactions(states=["Ongoing", "Empty"], producer_ids=[1, 0], longer_than_ms=0, pattern="a.*")
    admin.list_transactions()
    narrow, wide = scripted.sent(ListTransactionsRequest)
    assert isinstance(narrow, ListTransactionsRequest)
    assert isinstance(wide, ListTransactionsRequest)
    assert (narrow.state_filters, narrow.producer_id_filters) == (["Empty", "Ongoing"], [0, 1])
    assert (narrow.duration_filter, narrow.transactional_id_pattern) == (0, "a.*")
    assert (wide.state_filters, wide.producer_id_filters) == ([], [])
    assert (wide.duration_filter, wide.transactional_id_pattern) == (-1, None)


def offering(version: int) -> ApiVersionsResponse:
    """The ApiVersions response of a broker that supports ListTransactions up to this version."""
    apis = [MetadataRequest, FindCoordinatorRequest, DescribeTransactionsRequest]
    ranges = {api.api_key: (api.versions.start, api.versions.stop - 1) for api in apis}
    ranges[ListTransactionsRequest.api_key] = 0, version
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=key, min_version=first, max_version=last) for key, (first, last) in ranges.items()]
    )


@pytest.mark.parametrize(
    ("version", "attempt", "reason"),
    [
        (0, lambda admin: admin.list_transactions(longer_than_ms=0), "find transactions by their duration"),
        (0, lambda admin: admin.list_transactions(pattern=""), "find transactional ids by a pattern"),
        (1, lambda admin: admin.list_transactions(pattern="a"), "find transactional ids by a pattern"),
    ],
)
def test_a_filter_that_an_old_broker_would_ignore_is_an_error(
    scripted: ScriptedTransactions,
    admin: TransactionAdmin,
    version: int,
    attempt: Callable[[TransactionAdmin], object],
    reason: str,
) -> None:
    scripted.scripts[ApiVersionsRequest] = lambda _: offering(version)
    scripted.begin("a", 1)
    with pytest.raises(UnsupportedApi, match=f"too old to {reason}"):
        attempt(admin)
    assert len(admin.list_transactions(states=["Ongoing"])) == 1, "the others it knows"


def test_listing_waits_for_a_loading_coordinator(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    answers = [
        ListTransactionsResponse(unknown_state_filters=[], transaction_states=[]),
        ListTransactionsResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, unknown_state_filters=[], transaction_states=[]
        ),
    ]
    scripted.scripts[ListTransactionsRequest] = lambda _: answers.pop()
    assert admin.list_transactions() == []
    assert answers == []


def test_a_state_that_the_broker_does_not_know_is_an_error(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    answer = ListTransactionsResponse(unknown_state_filters=["Sleepy"], transaction_states=[])
    scripted.scripts[ListTransactionsRequest] = lambda _: answer
    with pytest.raises(ClientError, match="knows no state 'Sleepy'"):
        admin.list_transactions(states=["Sleepy"])


def test_a_transaction_is_described_by_its_coordinator(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    scripted.begin("copier", 7, ORDERS_1, ORDERS_0)
    described = admin.describe_transaction("copier")
    assert (described.transactional_id, described.state) == ("copier", "Ongoing")
    assert (described.producer_id, described.producer_epoch, described.timeout_ms) == (7, 5, 60_000)
    assert (described.started_ms, described.partitions) == (1_000, (ORDERS_0, ORDERS_1))
    assert described.coordinator == (1, Endpoint.parse(scripted.bootstrap))
    (request,) = scripted.sent(FindCoordinatorRequest)
    assert isinstance(request, FindCoordinatorRequest)
    assert (request.key_type, request.coordinator_keys) == (1, ["copier"])


def test_an_id_without_a_transaction_has_no_start_time(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    scripted.begin("copier", 7, state="Empty", started_ms=-1)
    assert admin.describe_transaction("copier").started_ms is None


def test_a_coordinator_that_moved_is_looked_up_again(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    describe = scripted.scripts[DescribeTransactionsRequest]
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]

    def refuse_at_first(request: Request) -> Response | bytes | None:
        scripted.begin("copier", 7, code=codes.pop(0))
        return describe(request)

    scripted.scripts[DescribeTransactionsRequest] = refuse_at_first
    assert admin.describe_transaction("copier").producer_id == 7
    assert len(scripted.sent(DescribeTransactionsRequest)) == 3
    assert len(scripted.sent(FindCoordinatorRequest)) == 2, "one that loads is the right one"


def test_refusals_name_the_transactional_id(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    with pytest.raises(UnknownTransactionalId, match="transactional id 'nosuch' does not exist"):
        admin.describe_transaction("nosuch")
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    scripted.scripts[FindCoordinatorRequest] = lambda _: scripted.found(denied)
    with pytest.raises(Refused, match="transactional id 'copier': TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        admin.describe_transaction("copier")


# -- as partitions know them


def test_producers_are_described_and_unknown_fields_are_none(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    scripted.producers[ORDERS_0] = [
        producing(9, 40, epoch=2, timestamp_ms=NOW_MS, coordinator_epoch=3),
        producing(8, timestamp_ms=-1),
    ]
    assert admin.describe_producers([ORDERS_0, ORDERS_1]) == {
        ORDERS_0: ((9, 2, None, NOW_MS, 3, 40), (8, 0, None, None, None, None)),
        ORDERS_1: (),
    }
    (found,) = admin.open_transactions([ORDERS_0, ORDERS_1, ORDERS_0])
    assert (found.partition, found.producer.producer_id, found.start_offset) == (ORDERS_0, 9, 40)


def test_producers_of_many_partitions_are_described_in_several_requests(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    scripted.topics = {"wide": 501}
    partitions = [TopicPartition(TopicName("wide"), index) for index in range(501)]
    assert list(admin.describe_producers(partitions)) == partitions
    asked = [
        len(topic.partition_indexes)
        for request in scripted.sent(DescribeProducersRequest)
        if isinstance(request, DescribeProducersRequest)
        for topic in request.topics
    ]
    assert asked == [500, 1]


def test_each_leader_is_asked_for_its_own_partitions(scripted: ScriptedTransactions) -> None:
    with ScriptedTransactions() as other:
        scripted.producers[ORDERS_0] = [producing(1, 10)]
        other.producers[ORDERS_1] = [producing(2, 20)]
        scripted.scripts[MetadataRequest] = leading({"orders": 2}, {1: scripted.endpoint, 2: other.endpoint})
        with patient(scripted.bootstrap) as cluster:
            found = TransactionAdmin(cluster).open_transactions([ORDERS_1, ORDERS_0])
    assert [(each.partition, each.start_offset) for each in found] == [(ORDERS_0, 10), (ORDERS_1, 20)]


def test_a_refusal_to_describe_producers_names_the_partition(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    refused = PartitionResponse(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, active_producers=[])
    answer = DescribeProducersResponse(topics=[TopicResponse(name="orders", partitions=[refused])])
    scripted.scripts[DescribeProducersRequest] = lambda _: answer
    with pytest.raises(Refused, match="partition orders-0: TOPIC_AUTHORIZATION_FAILED"):
        admin.describe_producers([ORDERS_0])


# -- hanging transactions


def hanging(admin: TransactionAdmin, idle_ms: int = 15 * MINUTE_MS) -> list[tuple[TopicPartition, int]]:
    found = admin.find_hanging([ORDERS_0, ORDERS_1], idle_ms=idle_ms)
    return [(each.partition, each.producer.producer_id) for each in found]


def test_a_transaction_hangs_in_partitions_that_no_coordinator_knows_of(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    scripted.producers = {
        ORDERS_0: [producing(1, 10), producing(2, 20), producing(3, 30), producing(4)],
        ORDERS_1: [producing(1, 10), producing(2, 20)],
    }
    # No coordinator knows producer 1; producer 2 has not added the first partition; producer 3's transaction is ending.
    scripted.begin("two", 2, ORDERS_1)
    scripted.begin("three", 3, ORDERS_0, state="PrepareCommit")
    assert hanging(admin) == [(ORDERS_0, 1), (ORDERS_0, 2), (ORDERS_1, 1)]


def test_an_id_that_expires_during_the_search_owns_no_transaction(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    scripted.producers[ORDERS_0] = [producing(1, 10)]
    scripted.begin("one", 1, ORDERS_0, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert hanging(admin) == [(ORDERS_0, 1)]


def test_only_transactions_idle_for_long_enough_can_hang(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    scripted.producers[ORDERS_0] = [
        producing(1, 10, timestamp_ms=NOW_MS - 15 * MINUTE_MS),
        producing(2, 20, timestamp_ms=NOW_MS - 15 * MINUTE_MS - 1),
        producing(3, 30, timestamp_ms=-1),
    ]
    assert hanging(admin) == [(ORDERS_0, 2), (ORDERS_0, 3)]
    assert hanging(admin, 14 * MINUTE_MS) == [(ORDERS_0, 1), (ORDERS_0, 2), (ORDERS_0, 3)]


def test_without_open_transactions_no_coordinator_is_asked(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    scripted.producers[ORDERS_0] = [producing(4)]
    assert hanging(admin) == []
    assert scripted.sent(ListTransactionsRequest) == []


def test_a_transaction_that_ends_during_the_search_does_not_hang(
    scripted: ScriptedTransactions, admin: TransactionAdmin
) -> None:
    scripted.producers[ORDERS_0] = [producing(1, 10), producing(2, 20)]
    listing = scripted.scripts[ListTransactionsRequest]

    def ended_meanwhile(request: Request) -> Response | bytes | None:
        scripted.producers[ORDERS_0] = [producing(1), producing(2, 20)]
        return listing(request)

    scripted.scripts[ListTransactionsRequest] = ended_meanwhile
    assert hanging(admin) == [(ORDERS_0, 2)]


@pytest.mark.parametrize(("known", "sent"), [(3, 3), (0, 0), (None, 0)])
def test_an_abort_marker_goes_to_the_leader_of_the_partition(
    scripted: ScriptedTransactions, admin: TransactionAdmin, known: int | None, sent: int
) -> None:
    admin.abort(ORDERS_1, 9, 2, known)
    (marker,) = scripted.markers
    (topic,) = marker.topics
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (9, 2, sent)
    assert (marker.transaction_result, marker.transaction_version) == (False, 0)
    assert (topic.name, topic.partition_indexes) == ("orders", [1])


def test_a_marker_is_sent_again_when_leadership_moves(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    scripted.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    admin.abort(ORDERS_0, 9, 2, 0)
    assert len(scripted.markers) == 2


def test_a_refused_marker_is_an_error(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    scripted.codes = [ErrorCode.INVALID_PRODUCER_EPOCH]
    with pytest.raises(Refused, match="partition orders-0: INVALID_PRODUCER_EPOCH"):
        admin.abort(ORDERS_0, 9, 2, 0)
    assert len(scripted.markers) == 1


def test_a_response_without_the_marker_is_an_error(scripted: ScriptedTransactions, admin: TransactionAdmin) -> None:
    scripted.scripts[WriteTxnMarkersRequest] = lambda _: WriteTxnMarkersResponse(markers=[])
    with pytest.raises(ClientError, match="holds 0 results where 1 was asked for"):
        admin.abort(ORDERS_0, 9, 2, 0)
