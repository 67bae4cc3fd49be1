"""The machine of access: decisions about rules and roles, state, and rebuilding from its log alone."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.coordination.access import machine as module
from headwater.coordination.access.events import (
    AclAdded,
    AclRemoved,
    RoleCreated,
    RoleDeleted,
    RoleGranted,
    RoleRevoked,
    RuleEvent,
)
from headwater.coordination.access.machine import AccessLimits, AccessMachine
from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from headwater.security.roles import READY_ROLES, Role, RoleGrant

READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)
DENIAL = READ._replace(permission=Permission.DENY)
INVALID = READ._replace(name="")
AUDITOR = Role("auditor", {ResourceType.TOPIC: frozenset({Operation.DESCRIBE})})
GRANT = RoleGrant("auditor", "User:ann", ResourceType.ANY, "orders-", PatternType.PREFIXED)
READER_GRANT = GRANT._replace(role="reader")


def machine_of(*events: RuleEvent, **limits: int) -> AccessMachine:
    machine = AccessMachine(AccessLimits(**limits))
    for event in events:
        machine.apply(event)
    return machine


def state(machine: AccessMachine) -> dict[str, Any]:
    return copy.deepcopy(vars(machine))


def refusal(machine: AccessMachine, decide: str, argument: object) -> ErrorCode:
    before = state(machine)
    with pytest.raises(Refusal) as refused:
        getattr(machine, decide)(argument)
    assert state(machine) == before
    return refused.value.code


def codes(outcomes: Sequence[object]) -> list[object]:
    return [each.code if isinstance(each, Refusal) else each for each in outcomes]


# -- rules


def test_each_rule_of_a_request_is_decided_by_itself() -> None:
    machine = machine_of(AclAdded(READ))
    before = state(machine)
    outcomes = machine.decide_add_acls([READ, WRITE, INVALID, WRITE, DENIAL])
    assert codes(outcomes) == [None, AclAdded(WRITE), ErrorCode.INVALID_REQUEST, None, AclAdded(DENIAL)]
    assert state(machine) == before


def test_the_number_of_rules_is_bounded() -> None:
    machine = machine_of(AclAdded(READ), acls_max=2)
    assert codes(machine.decide_add_acls([WRITE, DENIAL, READ])) == [
        AclAdded(WRITE),
        ErrorCode.POLICY_VIOLATION,
        None,
    ]


def test_the_number_of_rules_that_change_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACLS_AT_ONCE_MAX", 2)
    machine = machine_of(AclAdded(READ), AclAdded(WRITE), AclAdded(DENIAL))
    assert codes(machine.decide_add_acls([READ, WRITE, DENIAL])) == [ErrorCode.POLICY_VIOLATION] * 3
    everything, both = AclFilter(), AclFilter(permission=Permission.ALLOW)
    assert codes(list(machine.decide_remove_acls([everything, both, AclFilter(*READ), AclFilter(*DENIAL)]))) == [
        ErrorCode.POLICY_VIOLATION,
        [READ, WRITE],
        [READ],
        ErrorCode.POLICY_VIOLATION,
    ]


def test_filters_select_what_they_remove() -> None:
    machine = machine_of(AclAdded(READ), AclAdded(WRITE), AclAdded(DENIAL))
    wanted = [AclFilter(permission=Permission.ALLOW), AclFilter(*READ), AclFilter(name="users"), AclFilter(*INVALID)]
    before = state(machine)
    assert list(machine.decide_remove_acls(wanted)) == [[READ, WRITE], [READ], [], []]
    assert state(machine) == before


# -- roles


def test_roles_are_created_granted_revoked_and_deleted() -> None:
    machine = machine_of()
    for decide, argument, event in (
        ("decide_create_role", AUDITOR, RoleCreated(AUDITOR)),
        ("decide_grant", GRANT, RoleGranted(GRANT)),
        ("decide_grant", READER_GRANT, RoleGranted(READER_GRANT)),
        ("decide_revoke", GRANT, RoleRevoked(GRANT)),
        ("decide_delete_role", "auditor", RoleDeleted("auditor")),
    ):
        before = state(machine)
        assert getattr(machine, decide)(argument) == [event]
        assert state(machine) == before
        machine.apply(event)
    assert machine.roles == {}
    assert list(machine.grants) == [READER_GRANT]


def test_a_grant_that_exists_creates_no_event() -> None:
    assert machine_of(RoleGranted(READER_GRANT)).decide_grant(READER_GRANT) == []


@pytest.mark.parametrize(
    ("decide", "argument", "code"),
    [
        ("decide_create_role", AUDITOR, ErrorCode.DUPLICATE_RESOURCE),
        ("decide_create_role", READY_ROLES["reader"], ErrorCode.DUPLICATE_RESOURCE),
        ("decide_create_role", Role("", AUDITOR.permissions), ErrorCode.INVALID_REQUEST),
        ("decide_create_role", Role("another", AUDITOR.permissions), ErrorCode.POLICY_VIOLATION),
        ("decide_delete_role", "nobody", ErrorCode.RESOURCE_NOT_FOUND),
        ("decide_delete_role", "reader", ErrorCode.INVALID_REQUEST),
        ("decide_delete_role", "auditor", ErrorCode.INVALID_REQUEST),
        ("decide_grant", GRANT._replace(role="nobody"), ErrorCode.RESOURCE_NOT_FOUND),
        ("decide_grant", GRANT._replace(principal="ann"), ErrorCode.INVALID_REQUEST),
        ("decide_grant", READER_GRANT, ErrorCode.POLICY_VIOLATION),
        ("decide_revoke", READER_GRANT, ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_invalid_changes_of_roles_are_refused(decide: str, argument: object, code: ErrorCode) -> None:
    machine = machine_of(RoleCreated(AUDITOR), RoleGranted(GRANT), roles_max=1, grants_max=1)
    assert refusal(machine, decide, argument) is code


def test_a_grant_stands_for_the_rules_of_its_role() -> None:
    machine = machine_of(RoleCreated(AUDITOR))
    (acl,) = machine.granted_by(GRANT)
    assert acl == Acl(
        ResourceType.TOPIC, "orders-", PatternType.PREFIXED, "User:ann", "*", Operation.DESCRIBE, Permission.ALLOW
    )
    assert not list(machine_of().granted_by(GRANT)), "a role that only a newer version knows gives nothing"


def test_the_version_rises_whenever_a_rule_changes_and_only_then() -> None:
    machine = machine_of()
    seen = [machine.version]
    for event in (AclAdded(READ), AclRemoved(READ), RoleGranted(READER_GRANT), RoleRevoked(READER_GRANT)):
        machine.apply(event)
        seen.append(machine.version)
    assert seen == sorted(set(seen)), "strictly rising"
    for other in (RoleCreated(AUDITOR), RoleDeleted("auditor")):
        machine.apply(other)
    assert machine.version == seen[-1]


# -- replay

acls = st.sampled_from([READ, WRITE, DENIAL, INVALID])
roles = st.sampled_from([AUDITOR, Role("owner", {ResourceType.GROUP: frozenset({Operation.ALL})})])
grants = st.sampled_from([GRANT, READER_GRANT, GRANT._replace(role="owner"), GRANT._replace(principal="User:bob")])
commands = st.one_of(
    st.tuples(st.just("decide_create_role"), roles),
    st.tuples(st.just("decide_delete_role"), roles.map(lambda role: role.name)),
    st.tuples(st.just("decide_grant"), grants),
    st.tuples(st.just("decide_revoke"), grants),
    st.tuples(st.just("decide_add_acls"), st.lists(acls, max_size=3)),
    st.tuples(st.just("decide_remove_acls"), st.lists(acls.map(lambda acl: AclFilter(*acl)), max_size=2)),
)


def events_of(machine: AccessMachine, decide: str, argument: object) -> list[RuleEvent]:
    try:
        decided = list(getattr(machine, decide)(argument))
    except Refusal:
        return []
    if decide == "decide_add_acls":
        return [each for each in decided if isinstance(each, AclAdded)]
    if decide == "decide_remove_acls":
        return [AclRemoved(acl) for found in decided for acl in found]
    return decided


def key_of(event: RuleEvent) -> object:
    match event:
        case RoleCreated(role):
            return role.name
        case _:
            return event[0]


@given(st.lists(commands, max_size=30))
def test_the_log_rebuilds_the_machine_compacted_or_not(given_commands: list[tuple[str, object]]) -> None:
    limits = {"acls_max": 2, "roles_max": 1, "grants_max": 2}
    machine, log, latest = machine_of(**limits), list[RuleEvent](), dict[object, RuleEvent]()
    for command in given_commands:
        for event in events_of(machine, *command):
            machine.apply(event)
            log.append(event)
            latest.pop(key_of(event), None)
            latest[key_of(event)] = event
    assert state(machine_of(*log, **limits)) == state(machine)
    rebuilt, expected = state(machine_of(*latest.values(), **limits)), state(machine)
    assert rebuilt.pop("version") <= expected.pop("version")
    assert rebuilt == expected
    assert all(machine._find_role(grant.role) for grant in machine.grants), "no grant outlives its role"
