"""Access control lists, as Kafka defines them: who may do what, from where, to which resources."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from headwater.errors import ErrorCode, Refusal
from headwater.security.principals import Principal

# As a host: any. As a literal name: every resource of the type.
WILDCARD = "*"
# As the principal of a rule: every principal, of whatever type.
ANYONE = "User:*"
# Kafka's limit is that of its strings, 32 KiB.
FIELD_LENGTH_MAX = 1024


class ResourceType(IntEnum):
    """By Kafka's numbers. ANY is for filters alone."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """By Kafka's numbers. ANY and MATCH are for filters alone."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """By Kafka's numbers. ANY is for filters alone."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """By Kafka's numbers. ANY is for filters alone."""

    ANY = 1
    DENY = 2
    ALLOW = 3


E = TypeVar("E", bound=IntEnum)


def by_number(kind: type[E], number: int) -> E:
    """What Kafka's number stands for."""
    try:
        return kind(number)
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no {kind.__name__} {number}") from None


def words(named: ResourceType | Operation) -> str:
    """As people read it: `transactional id`, `describe configs`."""
    return named.name.lower().replace("_", " ")


class Resource(NamedTuple):
    """What an operation is done to."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{words(self.type)} '{self.name}'"


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def group(group_id: str) -> Resource:
    return Resource(ResourceType.GROUP, group_id)


def transactional_id(name: str) -> Resource:
    return Resource(ResourceType.TRANSACTIONAL_ID, name)


def token_resource(token_id: str) -> Resource:
    return Resource(ResourceType.DELEGATION_TOKEN, token_id)


def user_resource(principal: Principal) -> Resource:
    """The name contains the type, too: `User:ann`."""
    return Resource(ResourceType.USER, str(principal))


def pattern_text(name: str, pattern: PatternType) -> str:
    """How people write a pattern: `orders` one name, `orders-*` a prefix, `*` every name."""
    return f"{name}{WILDCARD}" if pattern is PatternType.PREFIXED else name


def read_pattern(text: str) -> tuple[str, PatternType]:
    if len(text) > 1 and text.endswith(WILDCARD):
        return text[:-1], PatternType.PREFIXED
    return text, PatternType.LITERAL


class Acl(NamedTuple):
    """One rule. `principal` is `User:ann` or `User:*`, `host` an address or `*`, `name` a name, a prefix or `*`."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        verb = "may" if self.permission is Permission.ALLOW else "may not"
        named = f"{words(self.resource_type)} '{pattern_text(self.name, self.pattern)}'"
        where = "" if self.host == WILDCARD else f" from {self.host}"
        return f"{self.principal} {verb} {words(self.operation)} {named}{where}"


class AclFilter(NamedTuple):
    """Selects rules: a field that is None or ANY fits every rule. The pattern MATCH selects what applies to a resource
    of that name: its own rules, those of its prefixes, and the wildcard's."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.pattern in (PatternType.ANY, PatternType.MATCH, acl.pattern)
            and (self.name is None or self._matches_name(self.name, acl))
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, name: str, acl: Acl) -> bool:
        if self.pattern is not PatternType.MATCH:
            return name == acl.name
        if acl.pattern is PatternType.PREFIXED:
            return name.startswith(acl.name)
        return acl.name in (name, WILDCARD)

    @property
    def only_match(self) -> Acl | None:
        """The one rule that the filter can select, if it leaves nothing open."""
        if self.name is None or self.principal is None or self.host is None:
            return None
        resource_type, _, pattern, _, _, operation, permission = self
        acl = Acl(resource_type, self.name, pattern, self.principal, self.host, operation, permission)
        return acl if _is_definite(acl) else None


# The operations that a resource type has. A rule about another operation has no effect, and Kafka's broker accepts it.
OPERATIONS: Final[Mapping[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: frozenset(
        {
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DESCRIBE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.GROUP: frozenset(
        {
            Operation.READ,
            Operation.DESCRIBE,
            Operation.DELETE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
            Operation.ALTER,
            Operation.DESCRIBE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT}),
    ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
    ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
}

# A permission that is granted for the operation, or for one of these, allows it. A denial denies nothing else.
_ALSO_GRANTED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
# By operation: the operations of the rules that allow it, and of those that deny it.
ALLOWED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    each: frozenset({each, Operation.ALL}) | _ALSO_GRANTED_BY.get(each, frozenset()) for each in Operation
}
DENIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    each: frozenset({each, Operation.ALL}) for each in Operation
}


def all_permissions(principal: str) -> list[Acl]:
    """The rules of an administrator. Unlike the rights of a super user, they can be taken away again."""
    return [
        Acl(
            resource_type,
            CLUSTER.name if resource_type is ResourceType.CLUSTER else WILDCARD,
            PatternType.LITERAL,
            principal,
            WILDCARD,
            Operation.ALL,
            Permission.ALLOW,
        )
        for resource_type in OPERATIONS
    ]


def check_new_acl(acl: Acl) -> None:
    """Refuse a rule that Kafka's broker refuses, or that is too long."""
    if not _is_definite(acl):
        problem = "its resource type, pattern, operation and permission must be definite"
    elif not acl.name:
        problem = "its resource has no name"
    elif acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER.name:
        problem = f"the only name of a cluster is '{CLUSTER.name}'"
    elif not all(acl.principal.partition(":")):
        problem = f"'{acl.principal[:100]}' is not a principal: it has a type and a name, as in User:ann"
    elif not acl.host:
        problem = f"it has no host; '{WILDCARD}' stands for all"
    elif max(map(len, (acl.name, acl.principal, acl.host))) > FIELD_LENGTH_MAX:
        problem = f"a name, a principal and a host have up to {FIELD_LENGTH_MAX} characters"
    else:
        return
    raise Refusal(ErrorCode.INVALID_REQUEST, f"the rule is refused: {problem}")


def _is_definite(acl: Acl) -> bool:
    return (
        acl.resource_type is not ResourceType.ANY
        and acl.pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        and acl.operation is not Operation.ANY
        and acl.permission is not Permission.ANY
    )


def canonical_host(host: str) -> str:
    """One text for each address: IPv6 has many, and a dual-stack socket shows IPv4 clients in IPv6 form."""
    if ":" not in host:
        return host
    from ipaddress import IPv6Address  # noqa: PLC0415 - only where IPv6 is used

    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
