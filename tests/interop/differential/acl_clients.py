"""The clients of the comparison of ACLs, each with a set of rules, and with topics, groups and ids that are its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from headwater.security.acl import (
    CLUSTER,
    OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
USER = ResourceType.USER
DENY = Permission.DENY
HERE, ELSEWHERE = "127.0.0.1", "10.0.0.1"


class Own(NamedTuple):
    """What belongs to one client at one broker. `producer` is the id and epoch of its transactional id."""

    client: str
    topic_ids: Mapping[str, UUID]
    producer: tuple[int, int] = (-1, -1)

    def named(self, what: str) -> str:
        return f"{self.client}.{what}"

    def topic_id(self, what: str) -> UUID:
        return self.topic_ids[self.named(what)]


# By the names without the client's. The first are there when a client comes; the others are not.
TOPICS = ("orders", "grown", "changed", "doomed", "doomed-by-id")
TOPICS_ABSENT = ("new", "new-2", "auto", "missing")
GROUPS = ("readers", "gone")
GROUPS_ABSENT = ("joined", "modern", "share", "nowhere")
TRANSACTIONAL_IDS = ("ledger", "nowhere")

_NAMES: Mapping[ResourceType, Sequence[str]] = {
    TOPIC: (*TOPICS, *TOPICS_ABSENT),
    GROUP: (*GROUPS, *GROUPS_ABSENT),
    TRANSACTIONAL_ID: TRANSACTIONAL_IDS,
}


class Rule(NamedTuple):
    """Without a name it is about each of the client's own resources by name; `PREFIX` is all of them by one rule."""

    operation: Operation
    resource_type: ResourceType
    name: str | None = None
    permission: Permission = Permission.ALLOW
    host: str = WILDCARD
    principal: str | None = None


# Of the names of all that a client has.
PREFIX = "prefix"


def acls(client: str, rules: Sequence[Rule]) -> Iterator[Acl]:
    for rule in rules:
        principal = rule.principal or f"User:{client}"
        pattern = PatternType.PREFIXED if rule.name == PREFIX else PatternType.LITERAL
        for name in _resource_names(client, rule):
            yield Acl(rule.resource_type, name, pattern, principal, rule.host, rule.operation, rule.permission)


def _resource_names(client: str, rule: Rule) -> Sequence[str]:
    if rule.resource_type is ResourceType.CLUSTER:
        return [CLUSTER.name]
    if rule.name == PREFIX:
        return [f"{client}."]
    if rule.name is not None:
        return [rule.name if rule.name == WILDCARD or rule.resource_type is USER else f"{client}.{rule.name}"]
    if rule.resource_type is USER:
        return [f"User:{OTHER_OWNER}"]
    return [f"{client}.{name}" for name in _NAMES[rule.resource_type]]


# Whose delegation tokens clients ask for.
OTHER_OWNER = "somebody"


def _one_operation_each() -> Iterator[tuple[str, Sequence[Rule]]]:
    for resource_type in (TOPIC, GROUP, ResourceType.CLUSTER, TRANSACTIONAL_ID, USER):
        for operation in (*sorted(OPERATIONS[resource_type]), Operation.ALL):
            name = f"{resource_type.name}-{operation.name}".lower().replace("_", "-")
            yield name, [Rule(operation, resource_type)]


_EVERYTHING = [Rule(Operation.ALL, resource_type, WILDCARD) for resource_type in (*_NAMES, ResourceType.CLUSTER, USER)]

CLIENTS: Mapping[str, Sequence[Rule]] = {
    "nobody": [],
    **dict(_one_operation_each()),
    "consumer": [Rule(Operation.READ, TOPIC), Rule(Operation.READ, GROUP)],
    "deleter-of-offsets": [Rule(Operation.READ, TOPIC), Rule(Operation.DELETE, GROUP)],
    "describer": [Rule(Operation.DESCRIBE, TOPIC), Rule(Operation.DESCRIBE, GROUP)],
    "transactional-producer": [Rule(Operation.WRITE, TOPIC), Rule(Operation.WRITE, TRANSACTIONAL_ID)],
    "copier": [
        Rule(Operation.READ, TOPIC),
        Rule(Operation.WRITE, TOPIC),
        Rule(Operation.READ, GROUP),
        Rule(Operation.WRITE, TRANSACTIONAL_ID),
    ],
    "idempotent-writer": [Rule(Operation.WRITE, TOPIC), Rule(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)],
    "creator-and-describer": [Rule(Operation.CREATE, TOPIC), Rule(Operation.DESCRIBE, TOPIC)],
    "creator-and-describer-of-configs": [Rule(Operation.CREATE, TOPIC), Rule(Operation.DESCRIBE_CONFIGS, TOPIC)],
    "deleter-of-one": [Rule(Operation.DELETE, TOPIC, "doomed")],
    "reader-of-one": [Rule(Operation.READ, TOPIC, "orders"), Rule(Operation.READ, GROUP, "readers")],
    "prefix": [Rule(Operation.ALL, TOPIC, PREFIX), Rule(Operation.ALL, GROUP, PREFIX)],
    "everything": _EVERYTHING,
    "everything-but-describe": [*_EVERYTHING, Rule(Operation.DESCRIBE, TOPIC, permission=DENY)],
    "everything-but-read": [*_EVERYTHING, Rule(Operation.READ, TOPIC, permission=DENY)],
    "everything-but-write": [*_EVERYTHING, Rule(Operation.WRITE, TOPIC, PREFIX, DENY)],
    "everything-but-groups": [*_EVERYTHING, Rule(Operation.ALL, GROUP, permission=DENY)],
    "everything-but-cluster": [*_EVERYTHING, Rule(Operation.ALL, ResourceType.CLUSTER, permission=DENY)],
    "everything-but-one": [*_EVERYTHING, Rule(Operation.ALL, TOPIC, "orders", DENY)],
    "from-here": [Rule(Operation.READ, TOPIC, host=HERE), Rule(Operation.READ, GROUP, host=HERE)],
    "from-elsewhere": [Rule(Operation.ALL, TOPIC, host=ELSEWHERE), Rule(Operation.ALL, GROUP, host=ELSEWHERE)],
    "denied-elsewhere": [*_EVERYTHING, Rule(Operation.ALL, TOPIC, PREFIX, DENY, ELSEWHERE)],
    "anyone": [Rule(Operation.READ, TOPIC, principal="User:*"), Rule(Operation.READ, GROUP, principal="User:*")],
    "anyone-but": [*_EVERYTHING, Rule(Operation.READ, TOPIC, permission=DENY, principal="User:*")],
}
