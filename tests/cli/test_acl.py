"""`headwater acl`: rules are added, listed, removed and tested."""

import os
from collections.abc import Iterator

import pytest

from headwater.client.access import AccessAdmin
from headwater.client.cluster import Cluster
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from headwater.security.roles import RoleGrant
from headwater.testing import Broker
from tests.support.broker.settings import RULES_FOR_OTHERS
from tests.support.cli.commands import Commands, Terminal

READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE, principal="User:bob")
PREFIX = READ._replace(name="or", pattern=PatternType.PREFIXED, permission=Permission.DENY, host="10.0.0.1")
ANY_GROUP = READ._replace(resource_type=ResourceType.GROUP, name="*")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(RULES_FOR_OTHERS) as running:
        yield running


@pytest.fixture(autouse=True)
def admin(cluster: Cluster) -> Iterator[AccessAdmin]:
    admin = AccessAdmin(cluster)
    yield admin
    admin.delete_acls([AclFilter()])


# -- add


def test_a_rule_is_added_for_each_user_operation_and_resource(commands: Commands, admin: AccessAdmin) -> None:
    added = commands.succeed(
        *("acl", "add", "--user", "ann", "--operation", "read", "--operation", "describe"),
        *("--topic", "orders", "--group", "billing-*", "--host", "10.0.0.1"),
    )
    assert added.lines == [
        "added 4 rules",
        "  User:ann may read topic 'orders' from 10.0.0.1",
        "  User:ann may describe topic 'orders' from 10.0.0.1",
        "  User:ann may read group 'billing-*' from 10.0.0.1",
        "  User:ann may describe group 'billing-*' from 10.0.0.1",
    ]
    assert {(acl.name, acl.pattern) for acl in admin.describe_acls()} == {
        ("orders", PatternType.LITERAL),
        ("billing-", PatternType.PREFIXED),
    }


def test_a_rule_may_deny_and_be_about_every_kind_of_resource(commands: Commands, admin: AccessAdmin) -> None:
    for operation, *resource in (
        ("alter", "--cluster"),
        ("write", "--transactional-id", "t"),
        ("describe", "--delegation-token", "t"),
        ("create-tokens", "--tokens-of", "bob"),
        ("all", "--topic", "*"),
    ):
        commands.succeed("acl", "add", "--deny", "--user", "User:CN=ann,O=x", "--operation", operation, *resource)
    found = admin.describe_acls()
    assert {(acl.resource_type, acl.name) for acl in found} == {
        (ResourceType.CLUSTER, "kafka-cluster"),
        (ResourceType.TRANSACTIONAL_ID, "t"),
        (ResourceType.DELEGATION_TOKEN, "t"),
        (ResourceType.USER, "User:bob"),
        (ResourceType.TOPIC, "*"),
    }
    assert {(acl.principal, acl.host, acl.permission) for acl in found} == {("User:CN=ann,O=x", "*", Permission.DENY)}


def test_a_dry_run_adds_nothing(commands: Commands, admin: AccessAdmin) -> None:
    (row,) = commands.succeed(
        *("acl", "add", "--user", "*", "--operation", "read", "--topic", "o-*", "--dry-run", "--format", "json")
    ).rows
    assert row == {
        "principal": "User:*",
        "permission": "allow",
        "operation": "read",
        "resource": "topic",
        "name": "o-*",
        "pattern": "prefixed",
        "host": "*",
        "added": False,
    }
    assert admin.describe_acls() == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--user", "ann", "--operation", "read"], "nothing is named"),
        (["--user", "ann", "--topic", "t"], "--operation"),
        (["--operation", "read", "--topic", "t"], "--user"),
        (["--user", "ann", "--operation", "fly", "--topic", "t"], "'fly'"),
        (["--user", "ann", "--operation", "write", "--group", "g"], "group has no operation 'write'"),
        (["--user", "ann", "--operation", "read", "--topic", ""], "empty"),
        (["--user", "", "--operation", "read", "--topic", "t"], "has a name"),
        (["--user", "ann", "--operation", "read", "--topic", "t", "--host", "db.example"], "not the address"),
    ],
)
def test_a_rule_that_could_have_no_effect_is_wrong_usage(commands: Commands, arguments: list[str], text: str) -> None:
    outcome = commands("acl", "add", *arguments)
    assert outcome.code == 2
    assert text in outcome.error


def test_a_broker_without_an_authorizer_says_how_to_get_one() -> None:
    with Broker() as broker:
        outcome = Commands(broker.bootstrap_servers)("acl", "list")
    assert outcome.code == 1
    assert "authorizer.class.name" in outcome.error


# -- list


def test_rules_are_listed(commands: Commands, admin: AccessAdmin) -> None:
    admin.create_acls([READ, WRITE, PREFIX, ANY_GROUP])
    assert commands.succeed("acl", "list").lines == [
        "PRINCIPAL  PERMISSION  OPERATION  RESOURCE  NAME    HOST",
        "User:ann   deny        read       topic     or*     10.0.0.1",
        "User:ann   allow       read       topic     orders  *",
        "User:ann   allow       read       group     *       *",
        "User:bob   allow       write      topic     orders  *",
    ]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--user", "bob"], ["orders"]),
        (["--user", "ann", "--user", "bob", "--operation", "write"], ["orders"]),
        (["--topic", "orders"], ["or*", "orders", "orders"]),
        (["--topic", "or"], ["or*"]),
        (["--topic", "or*"], ["or*"]),
        (["--topic", "*"], []),
        (["--group", "billing"], ["*"]),
        (["--group", "*"], ["*"]),
        (["--cluster"], []),
        (["--topic", "or*", "--group", "g"], ["or*", "*"]),
    ],
)
def test_a_list_is_narrowed(commands: Commands, admin: AccessAdmin, arguments: list[str], names: list[str]) -> None:
    admin.create_acls([READ, WRITE, PREFIX, ANY_GROUP])
    rows = commands.succeed("acl", "list", *arguments, "--format", "json").rows
    assert [row["name"] for row in rows] == names


# -- remove


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["--topic", "orders"], [PREFIX, ANY_GROUP]),
        (["--topic", "or*"], [READ, WRITE, ANY_GROUP]),
        (["--group", "billing"], [READ, WRITE, PREFIX, ANY_GROUP]),
        (["--user", "ann"], [WRITE]),
        (["--user", "ann", "--operation", "read", "--topic", "orders"], [WRITE, PREFIX, ANY_GROUP]),
        (["--all"], []),
    ],
)
def test_just_the_named_rules_are_removed(
    commands: Commands, admin: AccessAdmin, arguments: list[str], left: list[Acl]
) -> None:
    everything = [READ, WRITE, PREFIX, ANY_GROUP]
    admin.create_acls(everything)
    planned = commands.succeed("acl", "remove", *arguments, "--dry-run", "--format", "json").rows
    assert admin.describe_acls() == sorted(everything)
    removed = commands.succeed("acl", "remove", *arguments, "--format", "json").rows
    assert len(removed) == len(everything) - len(left)
    assert removed == [{**row, "removed": True} for row in planned]
    assert admin.describe_acls() == sorted(left)


@pytest.mark.parametrize("arguments", [[], ["--all", "--user", "ann"]])
def test_a_removal_names_what_it_removes(commands: Commands, arguments: list[str]) -> None:
    assert commands("acl", "remove", *arguments).code == 2


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", []), (b"n\n", [READ])])
def test_a_person_is_asked_before_rules_are_removed(
    commands: Commands, admin: AccessAdmin, answer: bytes, left: list[Acl]
) -> None:
    admin.create_acls([READ])
    with Terminal() as terminal:
        os.write(terminal.person, answer)
        outcome = commands("acl", "remove", "--user", "ann", stdin=terminal.side)
    assert outcome.code == (130 if left else 0)
    assert "User:ann may read topic 'orders'" in outcome.error
    assert admin.describe_acls() == left


# -- test


def test_a_rule_allows(commands: Commands, admin: AccessAdmin) -> None:
    admin.create_acls([READ])
    outcome = commands.succeed("acl", "test", "--user", "ann", "--operation", "describe", "--topic", "orders")
    (line,) = outcome.lines
    reason = "because of the rule that User:ann may read topic 'orders'"
    assert line.startswith(f"allowed: User:ann may describe topic 'orders', {reason}")
    assert "assuming host 127.0.0.1" in line


def test_a_rule_denies_one_host(commands: Commands, admin: AccessAdmin) -> None:
    admin.create_acls([READ, PREFIX])
    question = ("acl", "test", "--user", "ann", "--operation", "read", "--topic", "orders", "--format", "json")
    outcome = commands(*question, "--host", "10.0.0.1")
    assert outcome.code == 1
    assert outcome.rows == [
        {
            "principal": "User:ann",
            "operation": "read",
            "resource": "topic",
            "name": "orders",
            "host": "10.0.0.1",
            "host_is_assumed": False,
            "allowed": False,
            "because": "of the rule that User:ann may not read topic 'or*' from 10.0.0.1",
        }
    ]
    assert commands.succeed(*question).rows[0]["host_is_assumed"]


def test_a_role_allows(commands: Commands, admin: AccessAdmin) -> None:
    grant = RoleGrant("reader", "User:ann", ResourceType.ANY, "orders-", PatternType.PREFIXED)
    admin.grant(grant)
    outcome = commands.succeed("acl", "test", "--user", "ann", "--operation", "read", "--group", "orders-1")
    assert "because of the role 'reader' on 'orders-*' for User:ann" in outcome.lines[0]
    admin.revoke(grant)
    outcome = commands("acl", "test", "--user", "ann", "--operation", "read", "--group", "orders-1")
    assert outcome.code == 1
    assert "denied: User:ann may not read group 'orders-1', because no rule allows it" in outcome.lines[0]


def test_a_super_user_is_known_from_the_brokers_settings(commands: Commands) -> None:
    outcome = commands.succeed("acl", "test", "--user", "ANONYMOUS", "--operation", "alter", "--cluster")
    assert "super.users" in outcome.lines[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--operation", "read"],
        ["--operation", "read", "--topic", "a", "--topic", "b"],
        ["--operation", "write", "--group", "g"],
        ["--operation", "read", "--topic", "a", "--host", "*"],
    ],
)
def test_a_test_is_about_one_operation_on_one_resource_from_one_host(commands: Commands, arguments: list[str]) -> None:
    assert commands("acl", "test", "--user", "ann", *arguments).code == 2
