"""`headwater role`: roles are created, granted, listed, revoked and deleted."""

import os
from collections.abc import Iterator

import pytest

from headwater.client.access import AccessAdmin
from headwater.client.cluster import Cluster
from headwater.security.acl import Operation, PatternType, ResourceType
from headwater.security.roles import Role, RoleGrant
from headwater.testing import Broker
from tests.support.broker.settings import RULES_FOR_OTHERS
from tests.support.cli.commands import Commands, Terminal

AUDITOR = Role("auditor", {ResourceType.TOPIC: frozenset({Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS})})
ON_ORDERS = RoleGrant("writer", "User:ann", ResourceType.ANY, "orders-", PatternType.PREFIXED)
ON_GROUP = RoleGrant("writer", "User:ann", ResourceType.TRANSACTIONAL_ID, "billing", PatternType.LITERAL)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(RULES_FOR_OTHERS) as running:
        yield running


@pytest.fixture(autouse=True)
def admin(cluster: Cluster) -> Iterator[AccessAdmin]:
    admin = AccessAdmin(cluster)
    yield admin
    for described in admin.describe_roles():
        for grant in described.grants:
            admin.revoke(grant)
        if not described.is_ready:
            admin.delete_role(described.role.name)


def created(admin: AccessAdmin) -> list[Role]:
    return [each.role for each in admin.describe_roles() if not each.is_ready]


def granted(admin: AccessAdmin) -> list[RoleGrant]:
    return [grant for each in admin.describe_roles() for grant in each.grants]


def test_a_role_is_created_and_deleted(commands: Commands, admin: AccessAdmin) -> None:
    outcome = commands.succeed(
        *("role", "create", "auditor", "--allow", "topic:describe", "--allow", "TOPIC:describe-configs")
    )
    assert outcome.lines == ["created role 'auditor': topic:describe,describe-configs"]
    assert created(admin) == [AUDITOR]
    again = commands("role", "create", "auditor", "--allow", "topic:describe")
    assert again.code == 1
    assert "already exists" in again.error
    assert commands.succeed("role", "delete", "auditor", "--format", "json").rows == [
        {"role": "auditor", "deleted": True}
    ]
    assert created(admin) == []


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        ("moon:read", "resource type"),
        ("topic", "not TYPE:OPERATION"),
        ("topic:fly", "not TYPE:OPERATION"),
        ("topic:read,", "not TYPE:OPERATION"),
        ("group:write", "group has no operation 'write'"),
    ],
)
def test_a_permission_that_does_not_exist_is_wrong_usage(commands: Commands, allowed: str, text: str) -> None:
    outcome = commands("role", "create", "odd", "--allow", allowed)
    assert outcome.code == 2
    assert text in outcome.error


def test_a_role_is_granted_and_revoked(commands: Commands, admin: AccessAdmin) -> None:
    outcome = commands.succeed(
        *("role", "grant", "writer", "--user", "ann", "--on", "orders-*", "--on", "transactional-id:billing")
    )
    assert outcome.lines == [
        "granted role 'writer' on 'orders-*' for User:ann",
        "granted role 'writer' on transactional id 'billing' for User:ann",
    ]
    assert set(granted(admin)) == {ON_ORDERS, ON_GROUP}
    outcome = commands.succeed("role", "revoke", "writer", "--user", "ann", "--on", "orders-*", "--format", "json")
    assert outcome.rows == [{"role": "writer", "principal": "User:ann", "on": "orders-*", "revoked": True}]
    assert granted(admin) == [ON_GROUP]
    commands.succeed("role", "revoke", "writer", "--user", "ann")
    assert granted(admin) == []


def test_what_was_granted_before_an_error_is_told(commands: Commands, admin: AccessAdmin) -> None:
    outcome = commands("role", "grant", "reader", "--user", "ann", "--on", "orders", "--on", "transactional-id:t")
    assert outcome.code == 1
    assert "gives nothing" in outcome.error
    assert outcome.lines == ["granted role 'reader' on 'orders' for User:ann"]
    assert len(granted(admin)) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["grant", "nobody", "--user", "ann", "--on", "*"], 1, "no role 'nobody'"),
        (["grant", "reader", "--user", "ann"], 2, "--on"),
        (["grant", "reader", "--user", "ann", "--on", "topic:"], 2, "has no name"),
        (["revoke", "reader", "--user", "ann"], 1, "not granted"),
        (["revoke", "reader", "--user", "ann", "--on", "t"], 1, "there is no role 'reader' on 't' for User:ann"),
        (["delete", "nobody"], 1, "no role 'nobody'"),
        (["delete", "reader"], 1, "cannot be deleted"),
    ],
)
def test_what_cannot_be_done_is_explained(commands: Commands, arguments: list[str], code: int, text: str) -> None:
    outcome = commands("role", *arguments)
    assert outcome.code == code
    assert text in outcome.error


def test_a_granted_role_is_not_deleted(commands: Commands, admin: AccessAdmin) -> None:
    admin.create_role(AUDITOR)
    admin.grant(ON_ORDERS._replace(role="auditor"))
    outcome = commands("role", "delete", "auditor")
    assert outcome.code == 1
    assert "granted 1 times: revoke that first" in outcome.error


@pytest.mark.parametrize(("answer", "count"), [(b"y\n", 0), (b"n\n", 2)])
def test_a_person_is_asked_before_several_grants_are_revoked(
    commands: Commands, admin: AccessAdmin, answer: bytes, count: int
) -> None:
    admin.grant(ON_ORDERS)
    admin.grant(ON_GROUP)
    with Terminal() as terminal:
        os.write(terminal.person, answer)
        outcome = commands("role", "revoke", "writer", "--user", "ann", stdin=terminal.side)
    assert outcome.code == (130 if count else 0)
    assert len(granted(admin)) == count


def test_roles_are_listed_with_their_grants(commands: Commands, admin: AccessAdmin) -> None:
    admin.create_role(AUDITOR)
    admin.grant(ON_ORDERS)
    lines = commands.succeed("role", "list").lines
    assert [line.split()[0] for line in lines] == ["ROLE", "reader", "writer", "operator", "auditor"]
    assert "orders-* for User:ann" in lines[2]
    assert commands.succeed("role", "list", "--user", "ann", "--format", "json").rows == [
        {
            "role": "writer",
            "permissions": ["topic:write,describe,describe-configs", "transactional-id:write,describe"],
            "granted": [{"role": "writer", "principal": "User:ann", "on": "orders-*"}],
            "ready": True,
        }
    ]
    assert commands.succeed("role", "list", "--user", "bob", "--format", "json").rows == []
