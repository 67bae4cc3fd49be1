"""Decides by rules whether a principal may do an operation, exactly as Kafka's StandardAuthorizer does.

A super user may do everything. Otherwise a rule that denies wins over all that allow, and without any that allows the
operation is denied, unless no rule at all is about the resource and `allow.everyone.if.no.acl.found` is set.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from headwater.security.acl import (
    ALLOWED_BY,
    ANYONE,
    DENIED_BY,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    canonical_host,
)
from headwater.security.principals import Principal

_CACHED_DECISIONS_MAX = 8192
# Clients choose names, so that a longer one could fill the memory.
_CACHED_NAME_LENGTH_MAX = 256
# Kafka asks for a resource of this name before it looks for any other that a principal may use. With
# `allow.everyone.if.no.acl.found` the name matters.
_EXAMPLE_NAME = "hardcode"


class Reason(StrEnum):
    """Why no rule decided."""

    SUPER_USER = "a super user may do everything (super.users)"
    NO_RULE_ALLOWS = "no rule allows it"
    NO_RULE_FOR_RESOURCE = "no rule is about the resource (allow.everyone.if.no.acl.found)"


class Decision(NamedTuple):
    is_allowed: bool
    rule: Acl | Reason


# The question whose decision is cached. A resource type stands for any resource of the type.
_Question: TypeAlias = tuple[Principal, str, Operation, Resource | ResourceType]

_DENIED = Decision(False, Reason.NO_RULE_ALLOWS)
_SUPER_USER = Decision(True, Reason.SUPER_USER)
_OPEN_RESOURCE = Decision(True, Reason.NO_RULE_FOR_RESOURCE)


class AclAuthorizer:
    """Rules are added and removed one by one. One that was added twice, as a rule and by a role, is removed twice."""

    def __init__(self, super_users: Collection[str] = (), *, allows_without_rules: bool = False) -> None:
        # Rises with every change: decisions of an earlier version are outdated.
        self.version = 0
        self._super_users = frozenset(super_users)
        self._allows_without_rules = allows_without_rules
        self._counts: Counter[Acl] = Counter()
        # By resource type and principal; without a principal: of all.
        self._rules: dict[tuple[ResourceType, str | None], _RulesByName] = {}
        self._decisions: dict[_Question, Decision] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def configure(self, super_users: Collection[str], *, allows_without_rules: bool) -> None:
        self._super_users = frozenset(super_users)
        self._allows_without_rules = allows_without_rules
        self._changed()

    def add(self, acl: Acl) -> None:
        self._counts[acl] += 1
        if self._counts[acl] > 1:
            return
        self._changed()
        for whose in (acl.principal, None):
            self._rules.setdefault((acl.resource_type, whose), _RulesByName()).add(acl)

    def remove(self, acl: Acl) -> None:
        if self._counts[acl] > 1:
            self._counts[acl] -= 1
            return
        if not self._counts.pop(acl, 0):
            return
        self._changed()
        for whose in (acl.principal, None):
            rules = self._rules[acl.resource_type, whose]
            rules.remove(acl)
            if rules.is_empty:
                del self._rules[acl.resource_type, whose]

    def _changed(self) -> None:
        self.version += 1
        self._decisions.clear()

    # -- decisions

    def decide(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> Decision:
        """`host` is the client's address in its canonical form."""
        question = principal, host, operation, resource
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decide(principal, host, operation, resource)
            if len(resource.name) <= _CACHED_NAME_LENGTH_MAX:
                self._keep(question, decision)
        return decision

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Whether there can be a resource of the type that the principal may do this to."""
        question = principal, host, operation, resource_type
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decide_any(principal, host, operation, resource_type)
            self._keep(question, decision)
        return decision

    def _keep(self, question: _Question, decision: Decision) -> None:
        if len(self._decisions) >= _CACHED_DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[question] = decision

    def _decide(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> Decision:
        name = str(principal)
        if name in self._super_users:
            return _SUPER_USER
        allowing: Acl | None = None
        for rules in self._rules_for(name, resource.type):
            for acl, rule_host in rules.about(resource.name):
                if rule_host not in (WILDCARD, host):
                    continue
                if acl.permission is Permission.DENY:
                    if acl.operation in DENIED_BY[operation]:
                        return Decision(False, acl)
                elif allowing is None and acl.operation in ALLOWED_BY[operation]:
                    allowing = acl
        if allowing is not None:
            return Decision(True, allowing)
        return _OPEN_RESOURCE if self._allows_without_rules and not self._has_rules(resource) else _DENIED

    def _decide_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """As Kafka's `authorizeByResourceType`: rules that imply the operation do not count here, except for the
        example."""
        decision = self._decide(principal, host, operation, Resource(resource_type, _EXAMPLE_NAME))
        if decision.is_allowed:
            return decision
        relevant = [
            acl
            for rules in self._rules_for(str(principal), resource_type)
            for acl, rule_host in rules.all()
            if rule_host in (WILDCARD, host) and acl.operation in DENIED_BY[operation]
        ]
        denying = {(acl.pattern, acl.name): acl for acl in relevant if acl.permission is Permission.DENY}
        everywhere = denying.get((PatternType.LITERAL, WILDCARD))
        if everywhere is not None:
            return Decision(False, everywhere)
        prefix_lengths = {len(name) for pattern, name in denying if pattern is PatternType.PREFIXED}
        for acl in relevant:
            if acl.permission is Permission.DENY:
                continue
            is_everywhere = acl.pattern is PatternType.LITERAL and acl.name == WILDCARD
            is_denied = (acl.pattern is PatternType.LITERAL and (acl.pattern, acl.name) in denying) or any(
                (PatternType.PREFIXED, acl.name[:length]) in denying for length in prefix_lengths
            )
            if is_everywhere or not is_denied:
                return Decision(True, acl)
        return _DENIED

    def _rules_for(self, principal: str, resource_type: ResourceType) -> "Iterable[_RulesByName]":
        for whose in (principal, ANYONE):
            rules = self._rules.get((resource_type, whose))
            if rules is not None:
                yield rules

    def _has_rules(self, resource: Resource) -> bool:
        """Whether any rule is about the resource, whoever it is for."""
        rules = self._rules.get((resource.type, None))
        return rules is not None and any(True for _ in rules.about(resource.name))


# A rule and its host in canonical form.
_Rule: TypeAlias = tuple[Acl, str]


class _RulesByName:
    """Rules for one resource type, found by the name of a resource: one step for each length that prefixes have."""

    __slots__ = ("_lengths", "_literal", "_prefixed")

    def __init__(self) -> None:
        self._literal: dict[str, dict[Acl, _Rule]] = {}
        self._prefixed: dict[str, dict[Acl, _Rule]] = {}
        # How many different prefixes of each length there are.
        self._lengths: Counter[int] = Counter()

    @property
    def is_empty(self) -> bool:
        return not self._literal and not self._prefixed

    def add(self, acl: Acl) -> None:
        by_name = self._by_name(acl)
        if acl.pattern is PatternType.PREFIXED and acl.name not in by_name:
            self._lengths[len(acl.name)] += 1
        by_name.setdefault(acl.name, {})[acl] = acl, canonical_host(acl.host)

    def remove(self, acl: Acl) -> None:
        by_name = self._by_name(acl)
        rules = by_name[acl.name]
        del rules[acl]
        if rules:
            return
        del by_name[acl.name]
        if acl.pattern is PatternType.PREFIXED:
            length = len(acl.name)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

    def _by_name(self, acl: Acl) -> dict[str, dict[Acl, _Rule]]:
        return self._prefixed if acl.pattern is PatternType.PREFIXED else self._literal

    def about(self, name: str) -> Iterator[_Rule]:
        yield from self._literal.get(name, _NO_RULES).values()
        if name != WILDCARD:
            yield from self._literal.get(WILDCARD, _NO_RULES).values()
        for length in self._lengths:
            if length <= len(name):
                yield from self._prefixed.get(name[:length], _NO_RULES).values()

    def all(self) -> Iterator[_Rule]:
        for by_name in (self._literal, self._prefixed):
            for rules in by_name.values():
                yield from rules.values()


_NO_RULES: dict[Acl, _Rule] = {}
