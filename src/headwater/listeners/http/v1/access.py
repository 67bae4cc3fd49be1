"""/v1/users, /v1/acls, /v1/roles: who may log in, and who may do what."""

from enum import IntEnum
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from headwater.broker.access.rules import AccessRules
from headwater.broker.access.users import Deletion
from headwater.broker.audit.event import EventType
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.http.operation import operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.page import PageQuery, page_of
from headwater.security.acl import (
    CLUSTER,
    FIELD_LENGTH_MAX,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    pattern_text,
    read_pattern,
)
from headwater.security.roles import READY_ROLES, Role, RoleGrant
from headwater.security.scram_keys import BY_NUMBER

TAG = "access"
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=FIELD_LENGTH_MAX)]
E = TypeVar("E", bound=IntEnum)


class UserEntry(msgspec.Struct):
    """A user, and the mechanisms by which it logs in."""

    user: str
    mechanisms: list[str]


class UserPage(msgspec.Struct):
    """Users, in their order."""

    users: list[UserEntry]
    next: str | None


class Password(msgspec.Struct, forbid_unknown_fields=True):
    """The password of a user."""

    password: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]

    def __repr__(self) -> str:
        return "Password()"


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    """One ACL. A `name` that ends in * is a prefix; * alone is every name."""

    principal: Name
    # topic, group, cluster, transactional_id, delegation_token or user.
    resource_type: Name
    name: Name
    # all, read, write, create, delete, alter, describe, …
    operation: Name
    # allow or deny.
    permission: str = "allow"
    host: Name = "*"


class Rules(msgspec.Struct):
    """ACLs."""

    acls: list[Rule]


class RuleQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Selects rules: what is not given fits all."""

    principal: Name | None = None
    resource_type: Name | None = None
    name: Name | None = None
    operation: Name | None = None


class RoleForm(msgspec.Struct, forbid_unknown_fields=True):
    """A role: the operations that it allows, by type of resource."""

    name: Name
    permissions: dict[str, list[str]]
    # Whether it is one of those that are always there.
    is_ready: bool = False


class GrantForm(msgspec.Struct, forbid_unknown_fields=True):
    """A role of a principal on names: one name, a prefix that ends in *, or * for every name."""

    role: Name
    principal: Name
    on: Name
    # any, topic, group, …
    resource_type: str = "any"


class Roles(msgspec.Struct):
    """All roles, and to whom they are granted."""

    roles: list[RoleForm]
    grants: list[GrantForm]


# -- users


@operation("GET", "/v1/users", tag=TAG)
async def list_users(request: Request, query: PageQuery) -> UserPage:
    """List the users. Their passwords are not stored."""
    request.guard.check(Operation.DESCRIBE, CLUSTER)
    found = request.broker.access.users.describe()
    names, following = page_of(found, query)
    shown = [UserEntry(name, [BY_NUMBER[each.mechanism].name for each in found[name]]) for name in names]
    return UserPage(shown, following)


@operation("PUT", "/v1/users/{user}", status=204, tag=TAG)
async def set_password(request: Request, user: str, body: Password) -> None:
    """Set the password of a user, who is created if need be."""
    request.guard.check(Operation.ALTER, CLUSTER)
    with request.guard.change(EventType.USER_CHANGE, f"user '{user}'", {"action": "set"}):
        await request.broker.access.users.set_password(user, body.password)


@operation("DELETE", "/v1/users/{user}", status=204, tag=TAG)
async def delete_user(request: Request, user: str) -> None:
    """Delete a user."""
    request.guard.check(Operation.ALTER, CLUSTER)
    users = request.broker.access.users
    infos = users.describe([user])[user]
    if not infos:
        raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {user!r}")
    with request.guard.change(EventType.USER_CHANGE, f"user '{user}'", {"action": "delete"}):
        error = (await users.alter((), [Deletion(user, each.mechanism) for each in infos]))[user]
        if error is not None:
            raise error


# -- ACLs


@operation("GET", "/v1/acls", tag=TAG)
async def list_acls(request: Request, query: RuleQuery) -> Rules:
    """List the ACLs that the query selects."""
    request.guard.check(Operation.DESCRIBE, CLUSTER)
    return Rules([_shown(acl) for acl in _rules(request).describe(_filter(query))])


@operation("POST", "/v1/acls", status=201, tag=TAG)
async def create_acl(request: Request, body: Rule) -> Rule:
    """Add an ACL. One that is there already is no error."""
    request.guard.check(Operation.ALTER, CLUSTER)
    acl = _acl(body)
    (error,) = await _rules(request).create([acl])
    request.guard.changed(EventType.ACL_CHANGE, str(acl), error, {"action": "add"})
    if error is not None:
        raise error
    return _shown(acl)


@operation("POST", "/v1/acls/delete", tag=TAG)
async def delete_acls(request: Request, body: RuleQuery) -> Rules:
    """Delete the ACLs that the body selects, and show them."""
    request.guard.check(Operation.ALTER, CLUSTER)
    if body == RuleQuery():
        raise Refusal(ErrorCode.INVALID_REQUEST, "say which ACLs: by principal, resource_type, name or operation")
    (outcome,) = await _rules(request).delete([_filter(body)])
    if isinstance(outcome, HeadwaterError):
        raise outcome
    for acl in outcome:
        request.guard.changed(EventType.ACL_CHANGE, str(acl), None, {"action": "remove"})
    return Rules([_shown(acl) for acl in outcome])


# -- roles


@operation("GET", "/v1/roles", tag=TAG)
async def list_roles(request: Request) -> Roles:
    """List all roles, and to whom they are granted."""
    request.guard.check(Operation.DESCRIBE, CLUSTER)
    rules = _rules(request)
    return Roles(
        [_role_form(role) for role in rules.roles().values()],
        [
            GrantForm(each.role, each.principal, pattern_text(each.name, each.pattern), each.resource_type.name.lower())
            for each in rules.grants()
        ],
    )


@operation("POST", "/v1/roles", status=201, tag=TAG)
async def create_role(request: Request, body: RoleForm) -> RoleForm:
    """Create a role."""
    request.guard.check(Operation.ALTER, CLUSTER)
    permissions = {
        _named(ResourceType, kind): frozenset(_named(Operation, each) for each in operations)
        for kind, operations in body.permissions.items()
    }
    role = Role(body.name, permissions)
    with request.guard.change(EventType.ROLE_CHANGE, f"role {body.name}", {"action": "create"}):
        await _rules(request).create_role(role)
    return _role_form(role)


@operation("DELETE", "/v1/roles/{role}", status=204, tag=TAG)
async def delete_role(request: Request, role: str) -> None:
    """Delete a role that nobody has."""
    request.guard.check(Operation.ALTER, CLUSTER)
    with request.guard.change(EventType.ROLE_CHANGE, f"role {role}", {"action": "delete"}):
        await _rules(request).delete_role(role)


@operation("POST", "/v1/grants", status=201, tag=TAG)
async def grant_role(request: Request, body: GrantForm) -> GrantForm:
    """Grant a role."""
    request.guard.check(Operation.ALTER, CLUSTER)
    grant = _grant(body)
    with request.guard.change(EventType.ROLE_CHANGE, str(grant), {"action": "grant"}):
        await _rules(request).grant(grant)
    return body


@operation("POST", "/v1/grants/revoke", status=204, tag=TAG)
async def revoke_role(request: Request, body: GrantForm) -> None:
    """Revoke a role."""
    request.guard.check(Operation.ALTER, CLUSTER)
    grant = _grant(body)
    with request.guard.change(EventType.ROLE_CHANGE, str(grant), {"action": "revoke"}):
        await _rules(request).revoke(grant)


def _rules(request: Request) -> AccessRules:
    return request.broker.access.rules


def _named(kind: type[E], name: str) -> E:
    try:
        return kind[name.upper()]
    except KeyError:
        known = ", ".join(each.name.lower() for each in kind)
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{name[:40]!r} is none of {known}") from None


def _acl(rule: Rule) -> Acl:
    name, pattern = read_pattern(rule.name)
    return Acl(
        _named(ResourceType, rule.resource_type),
        name,
        pattern,
        rule.principal,
        rule.host,
        _named(Operation, rule.operation),
        _named(Permission, rule.permission),
    )


def _shown(acl: Acl) -> Rule:
    return Rule(
        acl.principal,
        acl.resource_type.name.lower(),
        pattern_text(acl.name, acl.pattern),
        acl.operation.name.lower(),
        acl.permission.name.lower(),
        acl.host,
    )


def _filter(query: RuleQuery) -> AclFilter:
    name, pattern = (None, PatternType.ANY) if query.name is None else read_pattern(query.name)
    return AclFilter(
        ResourceType.ANY if query.resource_type is None else _named(ResourceType, query.resource_type),
        name,
        pattern,
        query.principal,
        None,
        Operation.ANY if query.operation is None else _named(Operation, query.operation),
    )


def _role_form(role: Role) -> RoleForm:
    permissions = {
        kind.name.lower(): sorted(each.name.lower() for each in operations)
        for kind, operations in role.permissions.items()
    }
    return RoleForm(role.name, permissions, role.name in READY_ROLES)


def _grant(form: GrantForm) -> RoleGrant:
    name, pattern = read_pattern(form.on)
    return RoleGrant(form.role, form.principal, _named(ResourceType, form.resource_type), name, pattern)


AREA = Area(
    "access",
    (
        list_users,
        set_password,
        delete_user,
        list_acls,
        create_acl,
        delete_acls,
        list_roles,
        create_role,
        delete_role,
        grant_role,
        revoke_role,
    ),
)
