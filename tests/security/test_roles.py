"""Roles: what the ready ones let people do, and which roles and grants are refused."""

import pytest

from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import CLUSTER, Operation, PatternType, Resource, ResourceType
from headwater.security.authorizer import AclAuthorizer
from headwater.security.principals import user
from headwater.security.roles import READY_ROLES, Role, RoleGrant, check_new_grant, check_new_role, rules_of

TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
ORDERS = RoleGrant("", "User:ann", ResourceType.ANY, "orders-", PatternType.PREFIXED)
EVERYTHING = RoleGrant("", "User:ann", ResourceType.ANY, "*", PatternType.LITERAL)


def allowed(role: str, grant: RoleGrant = ORDERS, *, name: str = "orders-1") -> set[tuple[ResourceType, Operation]]:
    """What ann may do to resources of this name, and to the cluster."""
    authorizer = AclAuthorizer()
    for acl in rules_of(READY_ROLES[role], grant):
        authorizer.add(acl)
    resources = [CLUSTER if each is CLUSTER.type else Resource(each, name) for each in ResourceType if each.value > 1]
    return {
        (resource.type, operation)
        for resource in resources
        for operation in Operation
        if authorizer.decide(user("ann"), "10.0.0.1", operation, resource).is_allowed
    }


def test_a_reader_consumes_in_groups_and_changes_nothing() -> None:
    assert allowed("reader") == {
        (TOPIC, Operation.READ),
        (TOPIC, Operation.DESCRIBE),
        (TOPIC, Operation.DESCRIBE_CONFIGS),
        (GROUP, Operation.READ),
        (GROUP, Operation.DESCRIBE),
    }
    assert allowed("reader", name="users") == set()


def test_a_writer_produces_also_in_transactions_and_reads_nothing() -> None:
    assert allowed("writer") == {
        (TOPIC, Operation.WRITE),
        (TOPIC, Operation.DESCRIBE),
        (TOPIC, Operation.DESCRIBE_CONFIGS),
        (TRANSACTIONAL_ID, Operation.WRITE),
        (TRANSACTIONAL_ID, Operation.DESCRIBE),
    }


def test_a_writer_may_be_an_idempotent_producer() -> None:
    authorizer = AclAuthorizer()
    for acl in rules_of(READY_ROLES["writer"], ORDERS):
        authorizer.add(acl)
    assert authorizer.allows_any(user("ann"), "10.0.0.1", Operation.WRITE, TOPIC).is_allowed


def test_an_operator_of_some_topics_gets_nothing_on_the_cluster() -> None:
    permissions = allowed("operator")
    assert {(TOPIC, Operation.CREATE), (TOPIC, Operation.ALTER_CONFIGS), (GROUP, Operation.DELETE)} < permissions
    assert not {operation for type_, operation in permissions if type_ is ResourceType.CLUSTER}


def test_an_operator_of_everything_sees_no_record_and_changes_no_rule() -> None:
    permissions = allowed("operator", EVERYTHING)
    assert {(CLUSTER.type, Operation.DESCRIBE), (CLUSTER.type, Operation.ALTER_CONFIGS)} < permissions
    forbidden = {
        (TOPIC, Operation.READ),
        (TOPIC, Operation.WRITE),
        # CreateAcls, DeleteAcls and AlterUserScramCredentials ask for it.
        (CLUSTER.type, Operation.ALTER),
        # A replica reads everything.
        (CLUSTER.type, Operation.CLUSTER_ACTION),
        (CLUSTER.type, Operation.CREATE),
    }
    assert not forbidden & permissions


def test_a_grant_may_be_for_one_resource_type() -> None:
    on_groups = ORDERS._replace(resource_type=GROUP)
    assert {type_ for type_, _ in allowed("reader", on_groups)} == {GROUP}


@pytest.mark.parametrize(
    ("role", "problem"),
    [
        (Role("", {TOPIC: frozenset({Operation.READ})}), "a name has"),
        (Role("a b", {TOPIC: frozenset({Operation.READ})}), "a name has"),
        (Role("n" * 101, {TOPIC: frozenset({Operation.READ})}), "a name has"),
        (Role("nothing", {}), "no permissions"),
        (Role("nothing", {TOPIC: frozenset()}), "no permissions"),
        (Role("odd", {GROUP: frozenset({Operation.WRITE, Operation.READ})}), "no write of group"),
        (Role("odd", {ResourceType.ANY: frozenset({Operation.READ})}), "no read of any"),
    ],
)
def test_a_role_that_means_nothing_is_refused(role: Role, problem: str) -> None:
    with pytest.raises(Refusal, match=problem) as refused:
        check_new_role(role)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_role_may_hold_all_operations() -> None:
    check_new_role(Role("owner", {TOPIC: frozenset({Operation.ALL})}))


def test_the_ready_roles_are_as_legal_as_any() -> None:
    for name, role in READY_ROLES.items():
        assert role.name == name
        check_new_role(role)


@pytest.mark.parametrize(
    ("grant", "problem"),
    [
        (ORDERS._replace(principal="ann"), "User:ann"),
        (ORDERS._replace(name=""), "no name"),
        (ORDERS._replace(pattern=PatternType.MATCH), "definite"),
        (ORDERS._replace(resource_type=TRANSACTIONAL_ID), "gives nothing"),
    ],
)
def test_a_grant_without_effect_is_refused(grant: RoleGrant, problem: str) -> None:
    with pytest.raises(Refusal, match=problem) as refused:
        check_new_grant(READY_ROLES["reader"], grant)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_role_on_the_cluster_alone_is_granted_on_everything() -> None:
    auditor = Role("auditor", {ResourceType.CLUSTER: frozenset({Operation.DESCRIBE})})
    check_new_grant(auditor, EVERYTHING)
    with pytest.raises(Refusal, match="on '\\*'"):
        check_new_grant(auditor, ORDERS)


def test_a_grant_reads_as_a_phrase() -> None:
    grant = RoleGrant("writer", "User:ann", TOPIC, "orders-", PatternType.PREFIXED)
    assert str(grant) == "role 'writer' on topic 'orders-*' for User:ann"
    assert str(grant._replace(resource_type=ResourceType.ANY)) == "role 'writer' on 'orders-*' for User:ann"
