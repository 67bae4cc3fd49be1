"""Roles: named sets of permissions, granted to a principal on the resources whose names fit a pattern.

A grant becomes rules that allow (`rules_of`), so that roles and ACLs are decided by one engine, and a rule that denies
wins over both. Headwater's own: Kafka has no roles.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import (
    CLUSTER,
    OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_new_acl,
    pattern_text,
    words,
)

_LEGAL_NAME: Final = r"[a-zA-Z0-9._-]{1,100}"


class Role(NamedTuple):
    name: str
    permissions: Mapping[ResourceType, frozenset[Operation]]


class RoleGrant(NamedTuple):
    """The role `writer` on `orders-*`, for `User:ann`. The type ANY stands for every resource type that the role is
    about. The cluster has no name to fit a pattern: permissions on it come with a grant on everything, `*`."""

    role: str
    principal: str
    resource_type: ResourceType
    name: str
    pattern: PatternType

    @property
    def is_on_everything(self) -> bool:
        return self.pattern is PatternType.LITERAL and self.name == WILDCARD

    def __str__(self) -> str:
        of_type = "" if self.resource_type is ResourceType.ANY else f"{words(self.resource_type)} "
        return f"role '{self.role}' on {of_type}'{pattern_text(self.name, self.pattern)}' for {self.principal}"


_READER = Role(
    "reader",
    # A client must know settings of its topics, such as the retention, and they are less secret than the records.
    {
        ResourceType.TOPIC: frozenset({Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}),
        ResourceType.GROUP: frozenset({Operation.READ, Operation.DESCRIBE}),
    },
)
_WRITER = Role(
    "writer",
    # An idempotent producer needs no more: it may be one as soon as it may write to any topic (KIP-679).
    {
        ResourceType.TOPIC: frozenset({Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}),
        ResourceType.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE}),
    },
)
_OPERATOR = Role(
    "operator",
    # Runs the cluster without seeing the data and without deciding who may: no READ or WRITE of topics, and on the
    # cluster neither ALTER, which is for users and rules, nor CLUSTER_ACTION, with which replicas read everything.
    # So an operator who resets a group's offsets, for which Kafka asks READ on the topic, is a reader as well.
    {
        ResourceType.TOPIC: frozenset(
            {
                Operation.CREATE,
                Operation.DELETE,
                Operation.ALTER,
                Operation.DESCRIBE,
                Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
            }
        ),
        ResourceType.GROUP: OPERATIONS[ResourceType.GROUP],
        ResourceType.TRANSACTIONAL_ID: frozenset({Operation.DESCRIBE}),
        ResourceType.CLUSTER: frozenset({Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
    },
)
# Roles that need not be created, and cannot be deleted.
READY_ROLES: Final[Mapping[str, Role]] = {role.name: role for role in (_READER, _WRITER, _OPERATOR)}


def check_new_role(role: Role) -> None:
    unknown = [
        f"{words(operation)} of {words(resource_type)}"
        for resource_type, operations in role.permissions.items()
        for operation in sorted(operations - OPERATIONS.get(resource_type, frozenset()) - {Operation.ALL})
    ]
    if not re.fullmatch(_LEGAL_NAME, role.name):
        problem = "a name has 1 to 100 ASCII letters, digits, '.', '_' and '-'"
    elif unknown:
        problem = f"there is no {', '.join(unknown)}"
    elif not all(role.permissions.values()) or not role.permissions:
        problem = "it has no permissions"
    else:
        return
    raise Refusal(ErrorCode.INVALID_REQUEST, f"role '{role.name[:100]}' is refused: {problem}")


def check_new_grant(role: Role, grant: RoleGrant) -> None:
    """Refuse a grant whose rules would be refused, or that gives nothing."""
    rules = list(rules_of(role, grant))
    if not rules:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"{grant} gives nothing: the role is about {', '.join(map(words, role.permissions))}, "
            f"and permissions on the cluster are granted on '{WILDCARD}'",
        )
    for acl in rules:
        check_new_acl(acl)


def rules_of(role: Role, grant: RoleGrant) -> Iterator[Acl]:
    """The rules that a grant stands for."""
    for resource_type, operations in role.permissions.items():
        if grant.resource_type not in (ResourceType.ANY, resource_type):
            continue
        name, pattern = grant.name, grant.pattern
        if resource_type is ResourceType.CLUSTER:
            if not grant.is_on_everything:
                continue
            name = CLUSTER.name
        for operation in sorted(operations):
            yield Acl(resource_type, name, pattern, grant.principal, WILDCARD, operation, Permission.ALLOW)
