"""Access control lists, as Kafka defines them: who may do what, from where, to which resources."""

from enum import IntEnum
from typing import NamedTuple

WILDCARD = "*"


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


class Resource(NamedTuple):
    """What an operation is done to."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} '{self.name}'"


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")


class Acl(NamedTuple):
    """One rule. `principal` is `User:ann` or `User:*`, `host` an address or `*`, `name` a name, a prefix or `*`."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission
