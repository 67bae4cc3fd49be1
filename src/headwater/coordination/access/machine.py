"""Access: rules and roles, the part of the catalog that says who may do what. Pure, as the catalog's machine."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from headwater.coordination.access.events import (
    AclAdded,
    AclRemoved,
    RoleCreated,
    RoleDeleted,
    RoleGranted,
    RoleRevoked,
    RuleEvent,
)
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.security.acl import Acl, AclFilter, check_new_acl
from headwater.security.roles import READY_ROLES, Role, RoleGrant, check_new_grant, check_new_role, rules_of

# As many as Kafka changes in one request. They become one batch of the log.
ACLS_AT_ONCE_MAX = 10_000

# What becomes of one rule of a request: an event, nothing because it is there, or a refusal.
AclOutcome: TypeAlias = AclAdded | HeadwaterError | None
# The rules that a filter of a request removes, or why it removes none.
RemovalOutcome: TypeAlias = Sequence[Acl] | HeadwaterError


class AccessLimits(NamedTuple):
    acls_max: int = 100_000
    roles_max: int = 1_000
    grants_max: int = 10_000


class AccessMachine:
    def __init__(self, limits: AccessLimits) -> None:
        # Rises with every change of a rule: cached decisions of an earlier version are outdated.
        self.version = 0
        self.limits = limits
        self.acls: dict[Acl, None] = {}
        # The roles that were created; `role` knows the ready ones, too.
        self.roles: dict[str, Role] = {}
        self.grants: dict[RoleGrant, None] = {}

    # -- decisions about rules

    def decide_add_acls(self, acls: Sequence[Acl]) -> list[AclOutcome]:
        """Decide about each rule by itself."""
        if len(acls) > ACLS_AT_ONCE_MAX:
            return [_too_many_at_once()] * len(acls)
        outcomes: list[AclOutcome] = []
        added: set[Acl] = set()
        for acl in acls:
            try:
                check_new_acl(acl)
                if acl in self.acls or acl in added:
                    outcomes.append(None)
                    continue
                _check_room(len(self.acls) + len(added), self.limits.acls_max, "rules", "headwater.acls.max")
            except Refusal as refusal:
                outcomes.append(refusal.kept())
            else:
                added.add(acl)
                outcomes.append(AclAdded(acl))
        return outcomes

    def decide_remove_acls(self, filters: Iterable[AclFilter]) -> Iterator[RemovalOutcome]:
        """Decide about each filter by itself. A rule that several filters select is removed by each of them."""
        removed: set[Acl] = set()
        for each in filters:
            found = self.select(each)
            if len(removed) + sum(acl not in removed for acl in found) > ACLS_AT_ONCE_MAX:
                yield _too_many_at_once()
            else:
                removed.update(found)
                yield found

    def select(self, wanted: AclFilter) -> Sequence[Acl]:
        only = wanted.only_match
        if only is not None:
            return [only] if only in self.acls else []
        return [acl for acl in self.acls if wanted.matches(acl)]

    # -- decisions about roles

    def role(self, name: str) -> Role:
        role = self._find_role(name)
        if role is None:
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, f"there is no role '{name[:100]}'")
        return role

    def decide_create_role(self, role: Role) -> Sequence[RoleCreated]:
        check_new_role(role)
        if role.name in READY_ROLES or role.name in self.roles:
            raise Refusal(ErrorCode.DUPLICATE_RESOURCE, f"role '{role.name}' already exists")
        _check_room(len(self.roles), self.limits.roles_max, "roles", "headwater.roles.max")
        return [RoleCreated(role)]

    def decide_delete_role(self, name: str) -> Sequence[RoleDeleted]:
        role = self.role(name)
        if name in READY_ROLES:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"role '{name}' is Headwater's own and cannot be deleted")
        grant_count = sum(grant.role == name for grant in self.grants)
        if grant_count:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"role '{name}' is granted {grant_count} times: revoke that first")
        return [RoleDeleted(role.name)]

    def decide_grant(self, grant: RoleGrant) -> Sequence[RoleGranted]:
        check_new_grant(self.role(grant.role), grant)
        if grant in self.grants:
            return []
        _check_room(len(self.grants), self.limits.grants_max, "grants", "headwater.role.grants.max")
        return [RoleGranted(grant)]

    def decide_revoke(self, grant: RoleGrant) -> Sequence[RoleRevoked]:
        if grant not in self.grants:
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, f"there is no {grant}")
        return [RoleRevoked(grant)]

    # -- state

    def apply(self, event: RuleEvent) -> None:
        match event:
            case AclAdded(acl):
                self.version += 1
                self.acls[acl] = None
            case AclRemoved(acl):
                self.version += 1
                self.acls.pop(acl, None)
            case RoleCreated(role):
                self.roles[role.name] = role
            case RoleDeleted(name):
                self.roles.pop(name, None)
            case RoleGranted(grant):
                self.version += 1
                self.grants[grant] = None
            case RoleRevoked(grant):
                self.version += 1
                self.grants.pop(grant, None)
            case _:
                assert_never(event)

    def granted_by(self, grant: RoleGrant) -> Iterable[Acl]:
        """The rules that a grant stands for: none if its role is one that only a newer version has ready."""
        role = self._find_role(grant.role)
        return rules_of(role, grant) if role is not None else ()

    def _find_role(self, name: str) -> Role | None:
        return READY_ROLES.get(name) or self.roles.get(name)


def _check_room(count: int, count_max: int, what: str, setting: str) -> None:
    if count >= count_max:
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"there are {count} {what} already ({setting})")


def _too_many_at_once() -> Refusal:
    return Refusal(ErrorCode.POLICY_VIOLATION, f"more than {ACLS_AT_ONCE_MAX} rules cannot be changed at once")
