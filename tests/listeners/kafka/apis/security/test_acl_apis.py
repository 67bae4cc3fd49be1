"""CreateAcls, DescribeAcls and DeleteAcls: every version, the clients that people use, and requests that none sends."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,  # pyright: ignore[reportPrivateImportUsage]
    AclBindingFilter,  # pyright: ignore[reportPrivateImportUsage]
    AclOperation,  # pyright: ignore[reportPrivateImportUsage]
    AclPermissionType,  # pyright: ignore[reportPrivateImportUsage]
    AdminClient,
    ResourcePatternType,  # pyright: ignore[reportPrivateImportUsage]
)
from confluent_kafka.admin import ResourceType as ConfluentResourceType  # pyright: ignore[reportPrivateImportUsage]

from headwater.errors import ErrorCode
from headwater.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from headwater.protocol.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from headwater.protocol.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from headwater.security.acl import FIELD_LENGTH_MAX, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from headwater.testing import Broker
from tests.support.broker.settings import RULES_FOR_OTHERS
from tests.support.kafka.raw_client import RawClient

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.admin import ACL as KafkaPythonAcl  # noqa: N811
    from kafka.admin import ACLFilter as KafkaPythonFilter
    from kafka.admin import ACLOperation, ACLPermissionType, ResourcePattern, ResourcePatternFilter
    from kafka.admin import ACLResourcePatternType as KafkaPythonPatternType
    from kafka.admin import ResourceType as KafkaPythonResourceType

READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
PREFIX = Acl(ResourceType.GROUP, "or", PatternType.PREFIXED, "User:bob", "10.0.0.1", Operation.ALL, Permission.DENY)
VERSIONS = [1, 2, 3]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(RULES_FOR_OTHERS) as running:
        yield running


@pytest.fixture(autouse=True)
def no_rules(client: RawClient) -> Iterator[None]:
    """The tests of this file share a broker, and end without rules."""
    yield
    delete(client, AclFilter())


def create(client: RawClient, *acls: Acl | AclCreation, version: int = 3) -> list[tuple[int, str | None]]:
    creations = [each if isinstance(each, AclCreation) else creation_of(each) for each in acls]
    response = client.ask(CreateAclsRequest(creations=creations), CreateAclsResponse, version)
    return [(result.error_code, result.error_message) for result in response.results]


def creation_of(acl: Acl, **changed: int) -> AclCreation:
    fields = {
        "resource_type": acl.resource_type,
        "resource_pattern_type": acl.pattern,
        "operation": acl.operation,
        "permission_type": acl.permission,
        **changed,
    }
    return AclCreation(resource_name=acl.name, principal=acl.principal, host=acl.host, **fields)


def describe(client: RawClient, wanted: AclFilter, *, version: int = 3, **changed: int) -> DescribeAclsResponse:
    fields = {
        "resource_type_filter": wanted.resource_type,
        "pattern_type_filter": wanted.pattern,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
        **changed,
    }
    request = DescribeAclsRequest(
        resource_name_filter=wanted.name, principal_filter=wanted.principal, host_filter=wanted.host, **fields
    )
    return client.ask(request, DescribeAclsResponse, version)


def described(client: RawClient, wanted: AclFilter = AclFilter(), *, version: int = 3) -> set[Acl]:  # noqa: B008
    response = describe(client, wanted, version=version)
    assert response.error_code == ErrorCode.NONE
    return {
        Acl(
            ResourceType(each.resource_type),
            each.resource_name,
            PatternType(each.pattern_type),
            acl.principal,
            acl.host,
            Operation(acl.operation),
            Permission(acl.permission_type),
        )
        for each in response.resources
        for acl in each.acls
    }


def filter_of(wanted: AclFilter, **changed: int) -> DeleteAclsFilter:
    fields = {
        "resource_type_filter": wanted.resource_type,
        "pattern_type_filter": wanted.pattern,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
        **changed,
    }
    return DeleteAclsFilter(
        resource_name_filter=wanted.name, principal_filter=wanted.principal, host_filter=wanted.host, **fields
    )


def delete(client: RawClient, *filters: AclFilter | DeleteAclsFilter, version: int = 3) -> list[tuple[int, list[str]]]:
    """For each filter the error code, and the principals of the rules that were removed."""
    given = [each if isinstance(each, DeleteAclsFilter) else filter_of(each) for each in filters]
    response = client.ask(DeleteAclsRequest(filters=given), DeleteAclsResponse, version)
    return [(each.error_code, [acl.principal for acl in each.matching_acls]) for each in response.filter_results]


@pytest.mark.parametrize("version", VERSIONS)
def test_rules_are_created_described_and_deleted_in_every_version(client: RawClient, version: int) -> None:
    assert create(client, READ, PREFIX, READ, version=version) == [(0, None)] * 3
    assert described(client, version=version) == {READ, PREFIX}
    assert described(client, AclFilter(name="orders", pattern=PatternType.MATCH), version=version) == {READ, PREFIX}
    assert described(client, AclFilter(name="orders"), version=version) == {READ}
    assert delete(client, AclFilter(principal="User:bob"), AclFilter(name="users"), version=version) == [
        (0, ["User:bob"]),
        (0, []),
    ]
    assert described(client, version=version) == {READ}


def test_rules_are_described_by_resource(client: RawClient) -> None:
    create(client, READ, PREFIX, READ._replace(operation=Operation.WRITE))
    resources = describe(client, AclFilter()).resources
    assert [(each.resource_name, len(each.acls)) for each in resources] == [("orders", 2), ("or", 1)]


def test_each_invalid_rule_is_refused_by_itself(client: RawClient) -> None:
    results = create(
        client,
        READ._replace(name=""),
        READ,
        READ._replace(resource_type=ResourceType.CLUSTER),
        READ._replace(principal="ann"),
        READ._replace(pattern=PatternType.MATCH),
        READ._replace(operation=Operation.ANY),
        READ._replace(host="h" * (FIELD_LENGTH_MAX + 1)),
        creation_of(READ, resource_type=0),
        creation_of(READ, operation=99),
        creation_of(READ, permission_type=-1),
        creation_of(READ, resource_pattern_type=5),
    )
    assert [code for code, _ in results] == [ErrorCode.INVALID_REQUEST, 0] + [ErrorCode.INVALID_REQUEST] * 9
    assert all(text for code, text in results if code)
    assert described(client) == {READ}


def test_each_invalid_filter_is_refused_by_itself(client: RawClient) -> None:
    create(client, READ)
    unknown = [
        filter_of(AclFilter(), **{field: number})
        for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
        for number in (0, 99)
    ]
    assert delete(client, *unknown, AclFilter(name="users")) == [(ErrorCode.INVALID_REQUEST, [])] * 8 + [(0, [])]
    assert described(client) == {READ}
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        assert describe(client, AclFilter(), **{field: 99}).error_code == ErrorCode.INVALID_REQUEST


def test_an_empty_request_changes_nothing(client: RawClient) -> None:
    create(client, READ)
    assert create(client) == []
    assert delete(client) == []
    assert described(client) == {READ}


def test_a_broker_that_enforces_no_rules_keeps_none() -> None:
    with Broker() as broker, RawClient(broker) as client:
        assert [code for code, _ in create(client, READ, PREFIX)] == [ErrorCode.SECURITY_DISABLED] * 2
        assert describe(client, AclFilter()).error_code == ErrorCode.SECURITY_DISABLED
        assert delete(client, AclFilter()) == [(ErrorCode.SECURITY_DISABLED, [])]


def test_confluents_client_manages_rules(broker: Broker, client: RawClient) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    read = AclBinding(
        ConfluentResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:ann",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    # Its declaration is stricter than what it takes.
    open_filter: Any = AclBindingFilter
    everything = open_filter(
        ConfluentResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in admin.create_acls([read]).values():
        future.result()
    assert admin.describe_acls(everything).result() == [read]
    assert described(client) == {READ}
    (future,) = admin.delete_acls([everything]).values()
    assert future.result() == [read]
    assert described(client) == set()


def test_kafka_python_manages_rules(broker: Broker, client: RawClient) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        read = KafkaPythonAcl(
            "User:ann",
            "*",
            ACLOperation.READ,
            ACLPermissionType.ALLOW,
            ResourcePattern(KafkaPythonResourceType.TOPIC, "orders"),
        )
        everything = KafkaPythonFilter(
            None,
            None,
            ACLOperation.ANY,
            ACLPermissionType.ANY,
            ResourcePatternFilter(KafkaPythonResourceType.ANY, None, KafkaPythonPatternType.ANY),
        )
        assert admin.create_acls([read])["succeeded"] == [read]
        assert described(client) == {READ}
        found, _ = admin.describe_acls(everything)
        assert found == [read]
        admin.delete_acls([everything])
        assert described(client) == set()
    finally:
        admin.close()
