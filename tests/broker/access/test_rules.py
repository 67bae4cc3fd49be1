"""Rules and roles as listeners change them: on disk before they count, and the authorizer always in step."""

from pathlib import Path

import pytest

from headwater.broker.access.rules import AccessRules
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, Resource, ResourceType
from headwater.security.principals import user
from headwater.security.roles import READY_ROLES, Role, RoleGrant
from tests.support.broker.embedded_broker import crash, run, running, start
from tests.support.broker.faulty_disk import FULL, FaultyDisk

ENFORCED = {"authorizer.class.name": "acl"}
READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
INVALID = READ._replace(name="")
GRANT = RoleGrant("reader", "User:ann", ResourceType.ANY, "orders", PatternType.LITERAL)
AUDITOR = Role("auditor", {ResourceType.TOPIC: frozenset({Operation.DESCRIBE})})


def may_read(rules: AccessRules, name: str = "orders") -> bool:
    resource = Resource(ResourceType.TOPIC, name)
    return rules.authorizer.decide(user("ann"), "10.0.0.1", Operation.READ, resource).is_allowed


async def test_the_authorizer_follows_every_change(tmp_path: Path) -> None:
    async with running(tmp_path, ENFORCED) as broker:
        rules = broker.access.rules
        assert not may_read(rules)
        assert await rules.create([READ]) == [None]
        assert may_read(rules)
        await rules.grant(GRANT)
        assert await rules.delete([AclFilter(name="orders")]) == [[READ]]
        assert may_read(rules), "the role allows it as well"
        await rules.revoke(GRANT)
        assert not may_read(rules)
        assert len(rules.authorizer) == 0


@pytest.mark.parametrize("cleanly", [True, False])
async def test_acknowledged_changes_survive_a_restart(tmp_path: Path, cleanly: bool) -> None:
    broker = start(tmp_path, ENFORCED)
    rules = broker.access.rules
    await rules.create([READ, READ._replace(name="gone")])
    await rules.delete([AclFilter(name="gone")])
    await rules.create_role(AUDITOR)
    await rules.grant(GRANT._replace(role="auditor", name="users"))
    await rules.create_role(Role("gone", AUDITOR.permissions))
    await rules.delete_role("gone")
    await rules.grant(GRANT)
    await rules.revoke(GRANT)
    await (broker.stop() if cleanly else crash(broker))

    async with running(tmp_path, ENFORCED) as again:
        rules = again.access.rules
        assert rules.describe(AclFilter()) == [READ]
        assert rules.roles() == {**READY_ROLES, "auditor": AUDITOR}
        assert list(rules.grants()) == [GRANT._replace(role="auditor", name="users")]
        assert may_read(rules)
        assert not may_read(rules, "gone")
        describes = Resource(ResourceType.TOPIC, "users")
        assert rules.authorizer.decide(user("ann"), "10.0.0.1", Operation.DESCRIBE, describes).is_allowed


async def test_each_rule_of_a_request_is_created_or_refused_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, {**ENFORCED, "headwater.acls.max": "1"}) as broker:
        outcomes = await broker.access.rules.create([INVALID, READ, READ, READ._replace(name="users")])
        assert [each and each.code for each in outcomes] == [
            ErrorCode.INVALID_REQUEST,
            None,
            None,
            ErrorCode.POLICY_VIOLATION,
        ]
        assert "headwater.acls.max" in str(outcomes[-1])
        await broker._effective.change_broker(lambda _: {"headwater.acls.max": "2"})
        assert await broker.access.rules.create([READ._replace(name="users")]) == [None]


async def test_a_rule_is_removed_for_every_filter_that_selects_it(tmp_path: Path) -> None:
    async with running(tmp_path, ENFORCED) as broker:
        rules = broker.access.rules
        await rules.create([READ])
        assert await rules.delete([AclFilter(), AclFilter(*READ), AclFilter(name="users")]) == [[READ], [READ], []]
        assert rules.describe(AclFilter()) == []


async def test_a_refused_change_of_roles_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, ENFORCED) as broker:
        rules = broker.access.rules
        for refused in (
            rules.create_role(READY_ROLES["reader"]),
            rules.delete_role("nobody"),
            rules.grant(GRANT._replace(role="nobody")),
            rules.revoke(GRANT),
        ):
            with pytest.raises(Refusal):
                await refused
        assert rules.roles() == READY_ROLES
        assert list(rules.grants()) == []
        assert len(rules.authorizer) == 0


async def test_a_change_that_cannot_be_written_does_not_count(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed = "__headwater_catalog"
    async with running(tmp_path, ENFORCED, disk=disk) as broker:
        rules = broker.access.rules
        await rules.create([READ])
        disk.write_error = FULL
        for refused in (rules.create([READ._replace(name="users")]), rules.delete([AclFilter()]), rules.grant(GRANT)):
            with pytest.raises(HeadwaterError):
                await run(refused)
        assert may_read(rules)
        assert not may_read(rules, "users")
        assert rules.describe(AclFilter()) == [READ]
        assert list(rules.grants()) == []
        disk.heal()
        assert await rules.delete([AclFilter()]) == [[READ]]
        assert not may_read(rules)
