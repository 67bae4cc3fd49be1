"""Our client administers ACLs and roles of a broker."""

from collections.abc import Iterator

import pytest

from headwater.client.access import AccessAdmin, AuthorizerSettings
from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError, Refused
from headwater.errors import ErrorCode
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headwater.protocol.messages.security.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from headwater.security.roles import READY_ROLES, Role, RoleGrant
from headwater.testing import Broker
from tests.support.broker.settings import RULES_FOR_OTHERS
from tests.support.client.scripted import ScriptedBroker, leading, patient

READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)
DENIAL = READ._replace(name="or", pattern=PatternType.PREFIXED, permission=Permission.DENY)
AUDITOR = Role(
    "auditor",
    {ResourceType.TOPIC: frozenset({Operation.DESCRIBE}), ResourceType.GROUP: frozenset({Operation.DESCRIBE})},
)
GRANT = RoleGrant("auditor", "User:ann", ResourceType.ANY, "orders-", PatternType.PREFIXED)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**RULES_FOR_OTHERS, "allow.everyone.if.no.acl.found": "true"}) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AccessAdmin]:
    admin = AccessAdmin(cluster)
    yield admin
    admin.delete_acls([AclFilter()])


def test_acls_are_created_described_and_deleted(admin: AccessAdmin) -> None:
    admin.create_acls([WRITE, READ, DENIAL, READ])
    assert admin.describe_acls() == sorted([READ, WRITE, DENIAL])
    assert admin.describe_acls(AclFilter(name="orders", pattern=PatternType.MATCH)) == sorted([READ, WRITE, DENIAL])
    assert admin.describe_acls(AclFilter(permission=Permission.DENY)) == [DENIAL]
    assert admin.delete_acls([AclFilter(*READ), AclFilter(name="orders")]) == [READ, WRITE]
    assert admin.describe_acls() == [DENIAL]


def test_a_refused_acl_is_named(admin: AccessAdmin) -> None:
    with pytest.raises(Refused, match="kafka-cluster") as refused:
        admin.create_acls([READ, READ._replace(resource_type=ResourceType.CLUSTER)])
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert admin.describe_acls() == [READ]


def test_roles_are_created_granted_revoked_and_deleted(admin: AccessAdmin) -> None:
    admin.create_role(AUDITOR)
    admin.grant(GRANT)
    described = {each.role.name: each for each in admin.describe_roles()}
    assert {name: each.role for name, each in described.items()} == {**READY_ROLES, "auditor": AUDITOR}
    assert [each.is_ready for each in described.values()] == [True, True, True, False]
    assert described["auditor"].grants == (GRANT,)
    with pytest.raises(Refused, match="revoke that first"):
        admin.delete_role("auditor")
    admin.revoke(GRANT)
    admin.delete_role("auditor")
    assert {each.role.name for each in admin.describe_roles()} == READY_ROLES.keys()


def test_a_refused_change_of_roles_says_why(admin: AccessAdmin) -> None:
    with pytest.raises(Refused, match="already exists"):
        admin.create_role(READY_ROLES["reader"])
    with pytest.raises(Refused, match="no role 'auditor'"):
        admin.grant(GRANT)
    with pytest.raises(Refused, match="there is no role 'auditor' on 'orders-\\*' for User:ann"):
        admin.revoke(GRANT)


def test_what_a_newer_broker_tells_is_an_error_and_not_a_guess() -> None:
    flies = AclDescription(principal="User:ann", host="*", operation=99, permission_type=Permission.ALLOW)
    resource = DescribeAclsResource(resource_type=ResourceType.TOPIC, resource_name="orders", acls=[flies])
    answer = DescribeAclsResponse(resources=[resource])
    with (
        ScriptedBroker({DescribeAclsRequest: lambda _: answer}) as broker,
        patient(broker.bootstrap) as cluster,
        pytest.raises(ClientError, match="newer than this client: there is no Operation 99"),
    ):
        AccessAdmin(cluster).describe_acls()


def test_the_settings_of_the_authorizer_are_read_from_the_broker(admin: AccessAdmin) -> None:
    assert admin.authorizer_settings() == AuthorizerSettings(("User:ANONYMOUS",), allows_without_rules=True)


def test_a_broker_that_tells_no_settings_of_its_authorizer_has_no_super_users() -> None:
    result = DescribeConfigsResult(error_message=None, resource_type=4, resource_name="1", configs=[])
    with ScriptedBroker({DescribeConfigsRequest: lambda _: DescribeConfigsResponse(results=[result])}) as broker:
        broker.scripts[MetadataRequest] = leading({}, {1: broker.endpoint})
        with patient(broker.bootstrap) as cluster:
            found = AccessAdmin(cluster).authorizer_settings()
    assert found == AuthorizerSettings((), allows_without_rules=False)
