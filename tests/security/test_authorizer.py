"""The authorizer: Kafka's rules one by one, then any set of rules against a reference of thirty lines."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.security import authorizer as module
from headwater.security.acl import CLUSTER, Acl, Operation, PatternType, Permission, Resource, ResourceType
from headwater.security.authorizer import AclAuthorizer, Decision, Reason
from headwater.security.principals import Principal, user

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
HOST = "10.0.0.1"
ANN, BOB = user("ann"), user("bob")
ORDERS = Resource(TOPIC, "orders")
ANN_READS = Acl(TOPIC, "orders", LITERAL, "User:ann", "*", READ, ALLOW)


def authorizer_of(*acls: Acl, **options: Any) -> AclAuthorizer:
    authorizer = AclAuthorizer(**options)
    for acl in acls:
        authorizer.add(acl)
    return authorizer


def decide(
    *acls: Acl,
    principal: Principal = ANN,
    host: str = HOST,
    operation: Operation = READ,
    resource: Resource = ORDERS,
    **options: Any,
) -> Decision:
    return authorizer_of(*acls, **options).decide(principal, host, operation, resource)


DENIED = Decision(False, Reason.NO_RULE_ALLOWS)
ALLOWED = Decision(True, ANN_READS)


def test_what_no_rule_allows_is_denied() -> None:
    assert decide() == DENIED


def test_a_rule_allows_its_principal_its_operation_on_its_resource() -> None:
    assert decide(ANN_READS) == ALLOWED
    assert decide(ANN_READS, principal=BOB) == DENIED
    assert decide(ANN_READS, principal=Principal("Group", "ann")) == DENIED
    assert decide(ANN_READS, operation=WRITE) == DENIED
    assert decide(ANN_READS, resource=Resource(TOPIC, "orders2")) == DENIED
    assert decide(ANN_READS, resource=Resource(GROUP, "orders")) == DENIED


def test_a_rule_for_anyone_is_for_principals_of_every_type() -> None:
    anyone = ANN_READS._replace(principal="User:*")
    for principal in (ANN, BOB, Principal("Group", "ann")):
        assert decide(anyone, principal=principal).is_allowed


def test_a_rule_for_a_host_is_for_no_other() -> None:
    from_host = ANN_READS._replace(host=HOST)
    assert decide(from_host).is_allowed
    assert not decide(from_host, host="10.0.0.2").is_allowed
    assert decide(from_host._replace(host="0:0:0:0:0:0:0:1"), host="::1").is_allowed


def test_a_prefix_fits_names_that_begin_with_it_and_the_wildcard_fits_all() -> None:
    prefixed = ANN_READS._replace(name="or", pattern=PREFIXED)
    assert decide(prefixed).is_allowed
    assert decide(prefixed, resource=Resource(TOPIC, "or")).is_allowed
    assert not decide(prefixed, resource=Resource(TOPIC, "o")).is_allowed
    assert decide(ANN_READS._replace(name="*")).is_allowed
    star = ANN_READS._replace(name="*", pattern=PREFIXED)
    assert not decide(star).is_allowed, "as a prefix it is a character as any other"


@pytest.mark.parametrize(
    "denial",
    [
        ANN_READS,
        ANN_READS._replace(name="*"),
        ANN_READS._replace(name="o", pattern=PREFIXED),
        ANN_READS._replace(principal="User:*"),
        ANN_READS._replace(operation=Operation.ALL),
    ],
)
def test_a_denial_wins_over_every_permission(denial: Acl) -> None:
    denial = denial._replace(permission=DENY)
    for acls in ((ANN_READS, denial), (denial, ANN_READS), (ANN_READS._replace(name="*"), denial)):
        assert decide(*acls) == Decision(False, denial)


def test_permissions_imply_others_and_denials_do_not() -> None:
    for granted in (READ, WRITE, Operation.DELETE, Operation.ALTER, DESCRIBE, Operation.ALL):
        assert decide(ANN_READS._replace(operation=granted), operation=DESCRIBE).is_allowed
    assert not decide(ANN_READS._replace(operation=Operation.CREATE), operation=DESCRIBE).is_allowed
    assert not decide(ANN_READS._replace(operation=DESCRIBE)).is_allowed
    for granted in (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS):
        assert decide(ANN_READS._replace(operation=granted), operation=Operation.DESCRIBE_CONFIGS).is_allowed
    describes = ANN_READS._replace(operation=DESCRIBE)
    no_reading = ANN_READS._replace(permission=DENY)
    assert decide(describes, no_reading, operation=DESCRIBE) == Decision(True, describes)


def test_a_super_user_may_do_what_is_denied_to_all() -> None:
    denial = Acl(TOPIC, "*", LITERAL, "User:*", "*", Operation.ALL, DENY)
    assert decide(denial, super_users=["User:ann"]) == Decision(True, Reason.SUPER_USER)
    assert not decide(denial, principal=BOB, super_users=["User:ann"]).is_allowed


def test_a_resource_without_rules_is_open_only_if_that_is_asked_for() -> None:
    assert decide(allows_without_rules=True) == Decision(True, Reason.NO_RULE_FOR_RESOURCE)
    for rule in (
        ANN_READS._replace(principal="User:bob", operation=WRITE),
        ANN_READS._replace(name="*", principal="User:bob"),
        ANN_READS._replace(name="or", pattern=PREFIXED, permission=DENY, host="10.9.9.9"),
    ):
        assert decide(rule, allows_without_rules=True) == DENIED, "any rule that is about the resource counts"
    for rule in (ANN_READS._replace(name="users"), ANN_READS._replace(resource_type=GROUP)):
        assert decide(rule, allows_without_rules=True).is_allowed


def test_the_cluster_is_a_resource() -> None:
    acl = Acl(ResourceType.CLUSTER, CLUSTER.name, LITERAL, "User:ann", "*", Operation.ALTER, ALLOW)
    assert decide(acl, operation=Operation.ALTER, resource=CLUSTER).is_allowed


# -- changes


def test_decisions_follow_the_rules_that_are_added_and_removed() -> None:
    authorizer = authorizer_of()
    denial = ANN_READS._replace(permission=DENY, name="or", pattern=PREFIXED)
    for change, acl, expected in (
        (authorizer.add, ANN_READS, ALLOWED),
        (authorizer.add, denial, Decision(False, denial)),
        (authorizer.remove, denial, ALLOWED),
        (authorizer.add, ANN_READS, ALLOWED),
        (authorizer.remove, ANN_READS, ALLOWED),
        (authorizer.remove, ANN_READS, DENIED),
        (authorizer.remove, ANN_READS, DENIED),
    ):
        change(acl)
        assert authorizer.decide(ANN, HOST, READ, ORDERS) == expected
        assert authorizer.decide(ANN, HOST, READ, ORDERS) is authorizer.decide(ANN, HOST, READ, ORDERS)
    assert len(authorizer) == 0
    assert authorizer._rules == {}


def test_decisions_follow_the_settings() -> None:
    authorizer = authorizer_of()
    assert not authorizer.decide(ANN, HOST, READ, ORDERS).is_allowed
    authorizer.configure(["User:ann"], allows_without_rules=False)
    assert authorizer.decide(ANN, HOST, READ, ORDERS).is_allowed
    authorizer.configure([], allows_without_rules=True)
    assert authorizer.decide(ANN, HOST, READ, ORDERS).rule is Reason.NO_RULE_FOR_RESOURCE


def test_remembered_decisions_are_bounded_in_number_and_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED_DECISIONS_MAX", 10)
    authorizer = authorizer_of(ANN_READS)
    for number in range(100):
        authorizer.decide(ANN, HOST, READ, Resource(GROUP, f"group-{number}"))
        authorizer.allows_any(user(f"user-{number}"), HOST, READ, TOPIC)
        assert len(authorizer._decisions) <= 10
    authorizer.decide(ANN, HOST, READ, Resource(GROUP, "x" * 10_000))
    assert all("x" not in str(question) for question in authorizer._decisions)


# -- any resource of a type


def test_whether_any_resource_is_allowed_is_what_kafka_answers() -> None:
    def allows(*acls: Acl, **options: Any) -> bool:
        return authorizer_of(*acls, **options).allows_any(ANN, HOST, WRITE, TOPIC).is_allowed

    writes = ANN_READS._replace(operation=WRITE)
    denial = writes._replace(permission=DENY)
    team = writes._replace(name="team-", pattern=PREFIXED)
    assert allows(writes)
    assert allows(team)
    assert not allows(ANN_READS)
    assert not allows(writes._replace(host="10.9.9.9"))
    assert not allows(writes._replace(resource_type=GROUP))
    assert allows(super_users=["User:ann"])
    assert allows(allows_without_rules=True)
    assert not allows(writes, denial)
    assert not allows(writes, denial._replace(name="ord", pattern=PREFIXED))
    assert not allows(writes, denial._replace(name="*"))
    assert allows(writes, denial._replace(name="users"))
    assert allows(team, denial._replace(name="team-"))
    assert allows(team, denial._replace(name="team-secret", pattern=PREFIXED))
    assert not allows(team, denial._replace(name="tea", pattern=PREFIXED))
    everywhere = writes._replace(name="*")
    assert allows(everywhere, denial)
    example_denied = denial._replace(name="hardcode")
    assert allows(everywhere, example_denied, denial._replace(name="*", pattern=PREFIXED))


# -- against a reference


def reference(
    acls: Sequence[Acl],
    principal: Principal,
    host: str,
    operation: Operation,
    resource: Resource,
    *,
    super_users: Sequence[str],
    allows_without_rules: bool,
) -> bool:
    if str(principal) in super_users:
        return True
    about = [
        acl
        for acl in acls
        if acl.resource_type is resource.type
        and (resource.name.startswith(acl.name) if acl.pattern is PREFIXED else acl.name in (resource.name, "*"))
    ]
    if not about:
        return allows_without_rules
    mine = [acl for acl in about if acl.principal in (str(principal), "User:*") and acl.host in (host, "*")]
    if any(acl.permission is DENY and acl.operation in (operation, Operation.ALL) for acl in mine):
        return False
    enough = {operation, Operation.ALL}
    if operation is DESCRIBE:
        enough |= {READ, WRITE, Operation.DELETE, Operation.ALTER}
    if operation is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    return any(acl.permission is ALLOW and acl.operation in enough for acl in mine)


types = st.sampled_from([TOPIC, GROUP])
names = st.text("ab*", min_size=1, max_size=4)
principals = st.sampled_from([ANN, BOB, user("*")])
hosts = st.sampled_from([HOST, "10.0.0.2"])
operations = st.sampled_from([each for each in Operation if each is not Operation.ANY])
acls = st.builds(
    Acl,
    types,
    names,
    st.sampled_from([LITERAL, PREFIXED]),
    principals.map(str),
    hosts | st.just("*"),
    operations,
    st.sampled_from([ALLOW, DENY]),
)
requests = st.tuples(principals, hosts, operations, st.builds(Resource, types, names))


@settings(max_examples=300)
@given(st.lists(acls, max_size=12), st.lists(requests, min_size=1, max_size=8), st.booleans(), st.data())
def test_every_decision_is_that_of_the_reference(
    rules: list[Acl], asked: list[tuple[Principal, str, Operation, Resource]], is_open: bool, data: st.DataObject
) -> None:
    options: dict[str, Any] = {
        "super_users": data.draw(st.sampled_from([[], ["User:bob"]])),
        "allows_without_rules": is_open,
    }
    authorizer = AclAuthorizer(**options)
    current: list[Acl] = []
    for rule in rules:
        if current and data.draw(st.booleans()):
            removed = current.pop(data.draw(st.integers(0, len(current) - 1)))
            authorizer.remove(removed)
        authorizer.add(rule)
        current.append(rule)
        for question in asked:
            decision = authorizer.decide(*question)
            assert decision.is_allowed is reference(current, *question, **options)
            if isinstance(decision.rule, Acl):
                assert decision.rule in current
                assert (decision.rule.permission is ALLOW) is decision.is_allowed
