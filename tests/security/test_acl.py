"""ACLs: which filter selects which rule, and which new rules are refused."""

import pytest

from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import (
    FIELD_LENGTH_MAX,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    canonical_host,
    check_new_acl,
    pattern_text,
    read_pattern,
)

LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
ANN_READS = Acl(ResourceType.TOPIC, "orders", LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
PREFIX = ANN_READS._replace(name="or", pattern=PREFIXED)
WILDCARD = ANN_READS._replace(name="*")
OTHER = ANN_READS._replace(name="users")
GROUP = ANN_READS._replace(resource_type=ResourceType.GROUP, operation=Operation.DESCRIBE)
DENIAL = ANN_READS._replace(principal="User:bob", host="10.0.0.1", permission=Permission.DENY)
ALL = [ANN_READS, PREFIX, WILDCARD, OTHER, GROUP, DENIAL]


@pytest.mark.parametrize(
    ("wanted", "selected"),
    [
        (AclFilter(), ALL),
        (AclFilter(resource_type=ResourceType.GROUP), [GROUP]),
        (AclFilter(name="orders"), [ANN_READS, GROUP, DENIAL]),
        (AclFilter(name="orders", pattern=LITERAL), [ANN_READS, GROUP, DENIAL]),
        (AclFilter(name="orders", pattern=MATCH), [ANN_READS, PREFIX, WILDCARD, GROUP, DENIAL]),
        (AclFilter(name="or", pattern=MATCH), [PREFIX, WILDCARD]),
        (AclFilter(name="or", pattern=PREFIXED), [PREFIX]),
        (AclFilter(name="or"), [PREFIX]),
        (AclFilter(name="*"), [WILDCARD]),
        (AclFilter(name="*", pattern=MATCH), [WILDCARD]),
        (AclFilter(pattern=PREFIXED), [PREFIX]),
        (AclFilter(pattern=MATCH), ALL),
        (AclFilter(principal="User:bob"), [DENIAL]),
        (AclFilter(principal="User:*"), []),
        (AclFilter(host="10.0.0.1"), [DENIAL]),
        (AclFilter(host="*", permission=Permission.DENY), []),
        (AclFilter(operation=Operation.DESCRIBE), [GROUP]),
        (AclFilter(operation=Operation.ALL), []),
        (AclFilter(permission=Permission.DENY), [DENIAL]),
    ],
)
def test_a_filter_selects_as_kafkas_does(wanted: AclFilter, selected: list[Acl]) -> None:
    assert [acl for acl in ALL if wanted.matches(acl)] == selected


def test_a_filter_that_leaves_nothing_open_names_its_only_match() -> None:
    for acl in ALL:
        assert AclFilter(*acl).only_match == acl
    for left_open in (
        {"resource_type": ResourceType.ANY},
        {"name": None},
        {"pattern": PatternType.ANY},
        {"pattern": MATCH},
        {"principal": None},
        {"host": None},
        {"operation": Operation.ANY},
        {"permission": Permission.ANY},
    ):
        assert AclFilter(*ANN_READS)._replace(**left_open).only_match is None


@pytest.mark.parametrize("acl", [*ALL, ANN_READS._replace(operation=Operation.CREATE_TOKENS)])
def test_a_rule_is_accepted_even_for_an_operation_that_its_resource_does_not_have(acl: Acl) -> None:
    check_new_acl(acl)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"resource_type": ResourceType.ANY}, "definite"),
        ({"pattern": PatternType.ANY}, "definite"),
        ({"pattern": MATCH}, "definite"),
        ({"operation": Operation.ANY}, "definite"),
        ({"permission": Permission.ANY}, "definite"),
        ({"name": ""}, "no name"),
        ({"resource_type": ResourceType.CLUSTER, "name": "mine"}, "kafka-cluster"),
        ({"principal": "ann"}, "User:ann"),
        ({"principal": "User:"}, "User:ann"),
        ({"principal": ":ann"}, "User:ann"),
        ({"host": ""}, "no host"),
        ({"name": "n" * (FIELD_LENGTH_MAX + 1)}, "1024"),
        ({"principal": "User:" + "n" * FIELD_LENGTH_MAX}, "1024"),
        ({"host": "h" * (FIELD_LENGTH_MAX + 1)}, "1024"),
    ],
)
def test_a_rule_that_no_broker_could_apply_is_refused(changed: dict[str, object], problem: str) -> None:
    with pytest.raises(Refusal, match=problem) as refused:
        check_new_acl(ANN_READS._replace(**changed))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_pattern_is_read_as_it_is_written() -> None:
    for name, pattern, text in (("orders", LITERAL, "orders"), ("orders-", PREFIXED, "orders-*"), ("*", LITERAL, "*")):
        assert pattern_text(name, pattern) == text
        assert read_pattern(text) == (name, pattern)


def test_a_rule_reads_as_a_sentence() -> None:
    assert str(PREFIX) == "User:ann may read topic 'or*'"
    assert str(DENIAL) == "User:bob may not read topic 'orders' from 10.0.0.1"


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("*", "*"),
        ("10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::0001", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("no:address", "no:address"),
    ],
)
def test_an_address_has_one_canonical_text(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical
