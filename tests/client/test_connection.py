import socket
import struct
import threading

import pytest

from headwater.client.connection import BrokerConnection
from headwater.client.errors import ClientError, ConnectionLost, Refused
from headwater.clock import ManualClock
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from headwater.protocol.wire.codec import Request, encode
from headwater.testing import Broker
from tests.support.client.scripted import ScriptedBroker

ALL_TOPICS = MetadataRequest(topics=None)


@pytest.fixture
def endpoint(broker: Broker) -> Endpoint:
    return Endpoint.parse(broker.bootstrap_servers)


def test_requests_can_be_pipelined_and_awaited_in_any_order(endpoint: Endpoint) -> None:
    with BrokerConnection(endpoint) as connection:
        sent = [connection.send(ALL_TOPICS, MetadataResponse) for _ in range(5)]
        last = connection.wait(sent[-1])
        answers = [connection.wait(each) for each in sent]

    assert all(answer.cluster_id == last.cluster_id for answer in answers)


def test_a_request_that_cannot_be_encoded_is_an_error_and_the_connection_stays_open(endpoint: Endpoint) -> None:
    with BrokerConnection(endpoint) as connection:
        with pytest.raises(ClientError, match="MetadataRequest should say has no form"):
            connection.send(MetadataRequest(topics=[MetadataRequestTopic(name="\udcff")]), MetadataResponse)
        assert connection.call(ALL_TOPICS, MetadataResponse).cluster_id


def test_a_refused_connection_is_an_error_with_address_and_advice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = Endpoint(*free.getsockname())
    with pytest.raises(ConnectionLost, match=rf"cannot reach {endpoint}: Connection refused.*--bootstrap"):
        BrokerConnection(endpoint)


@pytest.mark.parametrize("host", ["name.invalid", "a" * 70 + ".invalid", ".."])
def test_an_unresolvable_host_is_one_clear_error(host: str) -> None:
    with pytest.raises(ConnectionLost, match="cannot reach"):
        BrokerConnection(Endpoint(host, 9092))


def test_an_older_broker_is_asked_in_a_version_that_it_supports() -> None:
    def script(_: Request) -> ApiVersionsResponse | bytes:
        offer = [
            ApiVersion(api_key=18, min_version=0, max_version=2),
            ApiVersion(api_key=3, min_version=0, max_version=8),
        ]
        if len(broker.requests) == 1:
            refusal = encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=offer), 0)
            return struct.pack(">ii", len(refusal) + 4, 1) + refusal
        return ApiVersionsResponse(api_keys=offer)

    with ScriptedBroker({ApiVersionsRequest: script}) as broker, BrokerConnection(broker.endpoint) as connection:
        assert len(broker.requests) == 2
        assert connection.version(MetadataRequest) == 8
        assert connection.version(MetadataRequest, 5) == 5


def test_answers_of_any_size_are_read_whole_and_small_ones_after_them() -> None:
    # Each broker takes 30 kB; from 256 kB on, the client reads half a megabyte at a time.
    broker_counts = [8, 9, 0, 17, 18, 1, 140, 0]
    left = list(broker_counts)

    def script(_: Request) -> MetadataResponse:
        each = MetadataResponseBroker(node_id=1, host="x" * 30_000, port=1)
        return MetadataResponse(brokers=[each] * left.pop(0), topics=[])

    with ScriptedBroker({MetadataRequest: script}) as broker, BrokerConnection(broker.endpoint) as connection:
        answers = [connection.call(ALL_TOPICS, MetadataResponse) for _ in broker_counts]
    assert [len(answer.brokers) for answer in answers] == broker_counts


def test_an_unsupported_api_versions_version_falls_back_to_version_0() -> None:
    def script(_: Request) -> ApiVersionsResponse | bytes:
        if len(broker.requests) == 1:
            refusal = encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[]), 0)
            return struct.pack(">ii", len(refusal) + 4, 1) + refusal
        return ApiVersionsResponse(api_keys=[])

    with ScriptedBroker({ApiVersionsRequest: script}) as broker, BrokerConnection(broker.endpoint) as connection:
        assert len(broker.requests) == 2
        with pytest.raises(ClientError, match="offers nothing of Metadata"):
            connection.version(MetadataRequest)


def test_a_refused_negotiation_is_an_error() -> None:
    script = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, api_keys=[])
    with (
        ScriptedBroker({ApiVersionsRequest: lambda _: script}) as broker,
        pytest.raises(Refused, match="AUTHORIZATION"),
    ):
        BrokerConnection(broker.endpoint)


def test_an_api_without_a_common_version_is_an_error() -> None:
    offer = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=90, max_version=99)])
    with (
        ScriptedBroker({ApiVersionsRequest: lambda _: offer}) as broker,
        BrokerConnection(broker.endpoint) as connection,
    ):
        with pytest.raises(ClientError, match="versions 90 to 99 of Metadata, this client knows 0 to 13"):
            connection.send(ALL_TOPICS, MetadataResponse)
        assert not connection.is_closed


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (struct.pack(">i", 2**31 - 1), "2147483647 bytes"),
        (struct.pack(">i", -1), "-1 bytes"),
        (struct.pack(">iib", 5, 99, 0), "answer to request 99"),
        (struct.pack(">iib", 5, 2, 0), "no Kafka protocol"),
        (b"HTTP/1.1 400 Bad Request\r\n", "no Kafka protocol"),
    ],
)
def test_a_response_that_is_not_kafka_protocol_closes_the_connection(answer: bytes, complaint: str) -> None:
    with ScriptedBroker({MetadataRequest: lambda _: answer}) as broker, BrokerConnection(broker.endpoint) as connection:
        with pytest.raises(ClientError, match=complaint) as raised:
            connection.call(ALL_TOPICS, MetadataResponse)
        assert not raised.value.is_retriable
        assert connection.is_closed


def test_a_broker_that_hangs_up_loses_all_requests_under_way() -> None:
    with ScriptedBroker({MetadataRequest: lambda _: None}) as broker, BrokerConnection(broker.endpoint) as connection:
        first = connection.send(ALL_TOPICS, MetadataResponse)
        second = connection.send(ALL_TOPICS, MetadataResponse)
        with pytest.raises(ConnectionLost, match="lost the connection"):
            connection.wait(first)
        with pytest.raises(ConnectionLost, match="closed before the answer"):
            connection.wait(second)
        with pytest.raises(ConnectionLost, match="is closed"):
            connection.send(ALL_TOPICS, MetadataResponse)


def test_a_request_to_a_broker_that_hung_up_is_lost() -> None:
    with ScriptedBroker({MetadataRequest: lambda _: None}) as broker, BrokerConnection(broker.endpoint) as connection:

        def send_until_it_fails() -> None:
            while True:
                connection.send(ALL_TOPICS, MetadataResponse)

        with pytest.raises(ConnectionLost, match="lost the connection"):
            send_until_it_fails()


def test_a_silent_broker_is_given_up_after_the_time_out() -> None:
    with (
        ScriptedBroker({MetadataRequest: lambda _: b""}) as broker,
        BrokerConnection(broker.endpoint) as connection,
        pytest.raises(ConnectionLost, match="no answer in time") as raised,
    ):
        connection.call(ALL_TOPICS, MetadataResponse, timeout_ms=20)
    assert raised.value.is_retriable


def test_a_time_out_of_zero_reads_nothing() -> None:
    with (
        ScriptedBroker({MetadataRequest: lambda _: b""}) as broker,
        BrokerConnection(broker.endpoint) as connection,
        pytest.raises(ConnectionLost, match="no answer in time"),
    ):
        connection.call(ALL_TOPICS, MetadataResponse, timeout_ms=0)


def test_a_broker_that_does_not_read_the_request_is_given_up() -> None:
    released = threading.Event()

    def never(_: Request) -> bytes:
        released.wait()
        return b""

    huge = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 30_000) for _ in range(400)])
    with (
        ScriptedBroker({MetadataRequest: never}) as broker,
        BrokerConnection(broker.endpoint, timeout_ms=100) as connection,
    ):
        connection.send(ALL_TOPICS, MetadataResponse)
        with pytest.raises(ConnectionLost, match="took no request"):
            connection.send(huge, MetadataResponse)
        released.set()


def test_an_interruption_within_a_response_closes_the_connection() -> None:
    class InterruptingClock(ManualClock):
        calls_left = -1

        def monotonic_ms(self) -> int:
            self.calls_left -= 1
            if self.calls_left == 0:
                raise KeyboardInterrupt
            return super().monotonic_ms()

    clock = InterruptingClock()
    with (
        ScriptedBroker({MetadataRequest: lambda _: b"\x00"}) as broker,
        BrokerConnection(broker.endpoint, clock=clock) as connection,
    ):
        # The first call sets the deadline; before the second, one of the four bytes of the size has been read.
        clock.calls_left = 3
        with pytest.raises(KeyboardInterrupt):
            connection.call(ALL_TOPICS, MetadataResponse)
        assert connection.is_closed
