"""A few bytes become neither much work nor a large answer, and no request keeps others from being served."""

import asyncio
import struct
from collections.abc import Iterator

import pytest

from headwater.errors import ErrorCode, ProtocolError
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest
from headwater.protocol.messages.configs.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.configs.incremental_alter_configs import AlterableConfig as Change
from headwater.protocol.messages.configs.incremental_alter_configs import AlterConfigsResource as ChangedResource
from headwater.protocol.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from headwater.protocol.wire.codec import Request, decode, read_request_header
from headwater.protocol.wire.primitives import write_unsigned_varint
from headwater.protocol.wire.schema import ELEMENTS_MAX
from headwater.testing import Broker
from tests.support.broker.on_loop import connection_of, on_loop
from tests.support.kafka.raw_client import RawClient, batch_of

TOPIC, GROUP, BROKER = 2, 32, 4
TIMES = 1000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


# -- tagged fields, each of which needs only two bytes


def tags(count: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, count)
    return bytes(out) + b"\x63\x00" * count


def test_a_message_has_no_more_tagged_fields_than_elements() -> None:
    names = b"\x02a\x02b"
    assert decode(ApiVersionsRequest, 4, names + tags(ELEMENTS_MAX)).client_software_name == "a"
    with pytest.raises(ProtocolError, match=f"more than {ELEMENTS_MAX} elements and tagged fields"):
        decode(ApiVersionsRequest, 4, names + tags(ELEMENTS_MAX + 1))


def test_tagged_fields_of_many_structures_count_together() -> None:
    count = ELEMENTS_MAX // 2
    topic = bytes(16) + b"\x02a" + tags(count)
    assert decode(MetadataRequest, 12, b"\x02" + topic + b"\x00\x00\x00").topics
    with pytest.raises(ProtocolError, match=f"more than {ELEMENTS_MAX} elements and tagged fields"):
        decode(MetadataRequest, 12, b"\x03" + topic + topic + b"\x00\x00\x00")


def test_a_header_has_no_more_tagged_fields_than_a_message() -> None:
    header = struct.pack(">hhih", MetadataRequest.api_key, 12, 1, -1)
    with pytest.raises(ProtocolError, match="tagged fields"):
        read_request_header(header + tags(ELEMENTS_MAX + 1), {MetadataRequest.api_key: 9})


# -- the same thing asked for again and again


def test_a_resource_named_repeatedly_is_described_once(client: RawClient) -> None:
    resources = [
        DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=None)
        for name in ("1", "") * TIMES
    ]
    described = client.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, 4).results
    assert [each.resource_name for each in described] == ["1", ""]
    # The empty name stands for the defaults of all brokers, of which none is set.
    assert [bool(each.configs) for each in described] == [True, False]


def test_producers_of_a_partition_named_repeatedly_are_described_once(client: RawClient) -> None:
    client.create("produced")
    client.produce("produced", batch_of(b"v", producer_id=7, producer_epoch=0, base_sequence=0))
    topics = [TopicRequest(name="produced", partition_indexes=[0, 0])] * TIMES
    (told,) = client.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse, 0).topics
    (partition,) = told.partitions
    assert [each.producer_id for each in partition.active_producers] == [7]


def test_a_resource_that_is_changed_twice_in_a_request_is_refused_once(client: RawClient) -> None:
    """As in Kafka, where each resource must appear at most once."""
    replaced = AlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[AlterableConfig(name="num.partitions", value="2")]
    )
    request = AlterConfigsRequest(resources=[replaced] * TIMES, validate_only=False)
    (refused,) = client.ask(request, AlterConfigsResponse, 2).responses
    assert refused.error_code == ErrorCode.INVALID_REQUEST

    change = Change(name="num.partitions", config_operation=0, value="2")
    changed = ChangedResource(resource_type=BROKER, resource_name="1", configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[changed] * TIMES, validate_only=False)
    (refused,) = client.ask(request, IncrementalAlterConfigsResponse, 1).responses
    assert refused.error_code == ErrorCode.INVALID_REQUEST


# -- many things at once


LONG_REQUESTS: dict[str, tuple[Request, int]] = {
    "describe groups": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=GROUP, resource_name=str(number), configuration_keys=None)
                for number in range(TIMES)
            ]
        ),
        4,
    ),
    "replace settings of groups": (
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=GROUP, resource_name=str(number), configs=[])
                for number in range(TIMES)
            ],
            validate_only=True,
        ),
        2,
    ),
    "change settings of groups": (
        IncrementalAlterConfigsRequest(
            resources=[
                ChangedResource(resource_type=GROUP, resource_name=str(number), configs=[]) for number in range(TIMES)
            ],
            validate_only=True,
        ),
        1,
    ),
    "validate topics": (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name=str(number), num_partitions=1, replication_factor=1) for number in range(TIMES)
            ],
            validate_only=True,
        ),
        7,
    ),
}


@pytest.mark.parametrize(("request_", "version"), LONG_REQUESTS.values(), ids=LONG_REQUESTS)
def test_a_long_request_does_not_block_other_requests(
    broker: Broker, client: RawClient, request_: Request, version: int
) -> None:
    connection = connection_of(broker, client)
    turns = 0

    def look() -> None:
        # Runs once in every turn of the broker's loop, so that it counts the turns until the response.
        nonlocal turns
        turns += bool(connection._slots)
        if connection._slots or not turns:
            loop.call_soon(look)

    loop = on_loop(broker, asyncio.get_running_loop)
    on_loop(broker, look)
    client.send(request_, version)
    assert client.receive_frame()
    assert turns, "it was answered before anyone else had a turn"
