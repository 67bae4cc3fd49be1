"""A client without any right: every API refuses it, or shows it nothing.

Which right each API asks for, in which order, is compared with Apache Kafka in `tests/interop`.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from headwater.errors import ErrorCode
from headwater.listeners.kafka.api_table import APIS
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest
from headwater.protocol.messages.cluster.describe_cluster import DescribeClusterRequest
from headwater.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from headwater.protocol.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.protocol.wire.codec import Message, Request, Response, nonzero_errors
from headwater.protocol.wire.schema import IDENTIFIER, RECORDS, TEXT, Array, Kind, NestedStruct, Scalar, Struct
from headwater.security.acl import Operation, Permission, ResourceType
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient, batch_of

TOPIC = "orders"
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
# What everybody may ask, and what leaves out all that the client may not see.
OPEN = {"ApiVersions", "DescribeCluster"}
# Part of authentication, or for clients that have authenticated: see `tests/listeners/kafka/sasl`.
OTHER = {
    "SaslHandshake",
    "SaslAuthenticate",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
}
FILTERED = {"ListGroups", "ListTransactions"}
# Numbers that name a kind of resource, an operation, a mode: the first that the API knows.
NUMBERS = {
    "acks": -1,
    "endpoint_type": 1,
    "resource_type": 2,
    "resource_types": 2,
    "resource_type_filter": 2,
    "pattern_type": 3,
    "pattern_type_filter": 3,
    "resource_pattern_type": 3,
    "operation": 3,
    "operations": 3,
    "permission_type": 3,
    "replica_id": -1,
    "timestamp": -1,
    "member_epoch": 0,
    "count": 2,
}
TEXTS = {"name": TOPIC, "topic": TOPIC, "principal": "User:ann", "host": "*"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"authorizer.class.name": "acl", "auto.create.topics.enable": "true"}) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


def filled(message: type[Struct], version: int) -> Any:
    """A message of the version in which every field names something."""
    values: dict[str, Any] = {}
    for field in message.__fields__:
        if version in field.versions:
            values[field.name] = value(field.name, field.kind, version)
    return message(**values)


def value(name: str, kind: Kind, version: int) -> Any:
    match kind:
        case Array():
            return [value(name, kind.element, version)]
        case NestedStruct():
            return filled(kind.struct, version)
        case Scalar():
            return UUID(int=0) if kind is IDENTIFIER else NUMBERS.get(name, 0)
        case _ if kind is RECORDS:
            return batch_of(b"value")
        case _ if kind is TEXT:
            return TEXTS.get(name, name)
        case _:
            return name.encode()


def response_of(request: type[Request]) -> type[Response]:
    (found,) = (each for each in Response.__subclasses__() if each.api_key == request.api_key)
    return found


BY_NAME = {api.name: api.load()[0] for api in APIS}


def request(name: str, version: int) -> Request:
    made = filled(BY_NAME[name], version)
    if name == "DescribeTopicPartitions":
        made.cursor = None
    return made


def versions(name: str) -> range:
    served = BY_NAME[name].versions
    # Unknown topic ids are no secret, and old versions of DescribeLogDirs have no error for the whole.
    stop = {"Produce": 13, "Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10}.get(name, served.stop)
    return range({"DescribeLogDirs": 3}.get(name, served.start), stop)


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - OPEN - OTHER - FILTERED))
def test_every_api_refuses_a_client_without_rights(client: RawClient, name: str) -> None:
    for version in versions(name):
        asked = request(name, version)
        answer: Message = client.ask(asked, response_of(type(asked)), version)
        codes = {ErrorCode(code) for code in nonzero_errors(answer)}
        assert codes, f"v{version} is not refused"
        assert codes <= REFUSALS, f"v{version}: {codes}"


def test_apis_that_list_leave_out_everything(client: RawClient) -> None:
    for name in FILTERED:
        asked = request(name, BY_NAME[name].versions[-1])
        answer = client.ask(asked, response_of(type(asked)), BY_NAME[name].versions[-1])
        assert not nonzero_errors(answer)


def test_open_apis_answer(client: RawClient) -> None:
    for asked in (ApiVersionsRequest(client_software_name="a", client_software_version="1"), DescribeClusterRequest()):
        version = type(asked).versions[-1]
        assert not nonzero_errors(client.ask(asked, response_of(type(asked)), version))


def test_an_unauthorized_client_cannot_tell_whether_a_topic_exists(broker: Broker, client: RawClient) -> None:
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC), MetadataRequestTopic(name="not a name")],
        allow_auto_topic_creation=True,
    )
    told = client.ask(asked, MetadataResponse, 9).topics
    assert [topic.error_code for topic in told] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert client.ask(MetadataRequest(topics=None), MetadataResponse, 9).topics == []


def test_a_page_of_partitions_does_not_point_to_a_topic_that_the_client_may_not_see() -> None:
    settings = {"authorizer.class.name": "acl", "allow.everyone.if.no.acl.found": "true"}
    with Broker(settings) as broker, RawClient(broker) as client:
        client.create(TOPIC)
        rule = AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name=TOPIC,
            principal="User:ann",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
        assert client.ask(CreateAclsRequest(creations=[rule]), CreateAclsResponse, 3).results[0].error_code == 0
        asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC), TopicRequest(name="payments")])
        told = client.ask(asked, DescribeTopicPartitionsResponse, 0)

    assert [(topic.name, topic.error_code) for topic in told.topics] == [
        ("payments", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert told.next_cursor is None
