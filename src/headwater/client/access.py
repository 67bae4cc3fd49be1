"""Administration of access: ACLs, as every Kafka broker has them, and roles, which only Headwater's brokers have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError, check, only
from headwater.endpoint import Endpoint
from headwater.errors import HeadwaterError
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.security.alter_roles import (
    AlterRolesRequest,
    AlterRolesResponse,
    RoleCreation,
)
from headwater.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from headwater.protocol.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from headwater.protocol.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from headwater.protocol.messages.security.describe_roles import (
    DescribeRolesRequest,
    DescribeRolesResponse,
    Grant,
    RolePermission,
)
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, by_number
from headwater.security.roles import Role, RoleGrant

SUPER_USERS = "super.users"
ALLOW_WITHOUT_ACL = "allow.everyone.if.no.acl.found"
# As many as a broker changes in one request.
_AT_ONCE_MAX = 10_000
_BROKER_RESOURCE = 4

E = TypeVar("E", bound=IntEnum)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RoleDescription:
    """A role and its grants. A ready role is one that every broker has."""

    role: Role
    is_ready: bool
    grants: tuple[RoleGrant, ...]


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    super_users: tuple[str, ...]
    allows_without_rules: bool


class AccessAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # -- ACLs

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Add rules. Those before the one that is refused are added."""
        for some in _at_once(acls):
            request = CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=acl.resource_type,
                        resource_name=acl.name,
                        resource_pattern_type=acl.pattern,
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in some
                ]
            )

            def read(response: CreateAclsResponse, some: Sequence[Acl] = some) -> None:
                for acl, result in zip(some, response.results, strict=True):
                    check(result.error_code, f"the rule '{acl}'", result.error_message)

            self._cluster.ask_controller(request, CreateAclsResponse, read)

    def describe_acls(self, wanted: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008 - a tuple
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )

        def read(response: DescribeAclsResponse) -> list[Acl]:
            check(response.error_code, "the rules", response.error_message)
            return [
                _acl(
                    resource.resource_type,
                    resource.resource_name,
                    resource.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
                for resource in response.resources
                for acl in resource.acls
            ]

        return sorted(self._cluster.ask_any(request, DescribeAclsResponse, read))

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[Acl]:
        """Remove the rules that any of the filters selects, and return them."""
        removed: dict[Acl, None] = {}
        for some in _at_once(filters):
            request = DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=wanted.resource_type,
                        resource_name_filter=wanted.name,
                        pattern_type_filter=wanted.pattern,
                        principal_filter=wanted.principal,
                        host_filter=wanted.host,
                        operation=wanted.operation,
                        permission_type=wanted.permission,
                    )
                    for wanted in some
                ]
            )

            def read(response: DeleteAclsResponse) -> list[Acl]:
                found: list[Acl] = []
                for result in response.filter_results:
                    check(result.error_code, "the rules", result.error_message)
                    for each in result.matching_acls:
                        acl = _acl(
                            each.resource_type,
                            each.resource_name,
                            each.pattern_type,
                            each.principal,
                            each.host,
                            each.operation,
                            each.permission_type,
                        )
                        check(each.error_code, f"the rule '{acl}'", each.error_message)
                        found.append(acl)
                return found

            removed |= dict.fromkeys(self._cluster.ask_controller(request, DeleteAclsResponse, read))
        return sorted(removed)

    # -- roles

    def describe_roles(self) -> list[RoleDescription]:
        def read(response: DescribeRolesResponse) -> list[RoleDescription]:
            check(response.error_code, "the roles", response.error_message)
            grants: dict[str, list[RoleGrant]] = {}
            for grant in response.grants:
                grants.setdefault(grant.role, []).append(_grant(grant))
            return [
                RoleDescription(
                    Role(role.name, _permissions(role.permissions)),
                    role.is_ready,
                    tuple(sorted(grants.get(role.name, ()))),
                )
                for role in response.roles
            ]

        return self._cluster.ask_any(DescribeRolesRequest(), DescribeRolesResponse, read)

    def create_role(self, role: Role) -> None:
        """Create a role. To change one, delete it first."""
        permissions = [
            RolePermission(resource_type=resource_type, operations=[*sorted(operations)])
            for resource_type, operations in role.permissions.items()
        ]
        creation = RoleCreation(name=role.name, permissions=permissions)
        self._alter(f"role '{role.name}'", creations=[creation])

    def delete_role(self, name: str) -> None:
        self._alter(f"role '{name}'", deletions=[name])

    def grant(self, grant: RoleGrant) -> None:
        self._alter(str(grant), grants=[_told(grant)])

    def revoke(self, grant: RoleGrant) -> None:
        self._alter(str(grant), revocations=[_told(grant)])

    def _alter(
        self,
        subject: str,
        *,
        creations: Sequence[RoleCreation] = (),
        grants: Sequence[Grant] = (),
        revocations: Sequence[Grant] = (),
        deletions: Sequence[str] = (),
    ) -> None:
        """Make a single change."""
        request = AlterRolesRequest(
            creations=[*creations], grants=[*grants], revocations=[*revocations], deletions=[*deletions]
        )

        def read(response: AlterRolesResponse) -> None:
            result = only([*response.creations, *response.grants, *response.revocations, *response.deletions])
            check(result.error_code, subject, result.error_message)

        self._cluster.ask_controller(request, AlterRolesResponse, read)

    # -- the authorizer

    def authorizer_settings(self) -> AuthorizerSettings:
        """What the broker decides by, beside the rules. One that does not tell counts as one without super users."""

        def ask() -> AuthorizerSettings:
            broker = self._cluster.metadata().brokers[0]
            resource = DescribeConfigsResource(
                resource_type=_BROKER_RESOURCE,
                resource_name=str(broker.node_id),
                configuration_keys=[SUPER_USERS, ALLOW_WITHOUT_ACL],
            )
            connection = self._cluster.connection(Endpoint(broker.host, broker.port))
            response = connection.call(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
            result = only(response.results)
            check(result.error_code, "the settings of the broker", result.error_message)
            values = {entry.name: entry.value or "" for entry in result.configs}
            listed = values.get(SUPER_USERS, "").split(";")
            return AuthorizerSettings(
                tuple(each.strip() for each in listed if each.strip()), values.get(ALLOW_WITHOUT_ACL) == "true"
            )

        return self._cluster.retrying(ask)


def _acl(
    resource_type: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int
) -> Acl:
    return Acl(
        _known(ResourceType, resource_type),
        name,
        _known(PatternType, pattern),
        principal,
        host,
        _known(Operation, operation),
        _known(Permission, permission),
    )


def _permissions(told: Sequence[RolePermission]) -> Mapping[ResourceType, frozenset[Operation]]:
    return {
        _known(ResourceType, each.resource_type): frozenset(_known(Operation, number) for number in each.operations)
        for each in told
    }


def _grant(told: Grant) -> RoleGrant:
    return RoleGrant(
        told.role,
        told.principal,
        _known(ResourceType, told.resource_type),
        told.resource_name,
        _known(PatternType, told.pattern_type),
    )


def _told(grant: RoleGrant) -> Grant:
    return Grant(
        role=grant.role,
        principal=grant.principal,
        resource_type=grant.resource_type,
        resource_name=grant.name,
        pattern_type=grant.pattern,
    )


def _known(kind: type[E], number: int) -> E:
    try:
        return by_number(kind, number)
    except HeadwaterError as error:
        raise ClientError(f"the broker is newer than this client: {error}") from error


def _at_once(things: Sequence[T]) -> Iterable[Sequence[T]]:
    return (things[start : start + _AT_ONCE_MAX] for start in range(0, len(things), _AT_ONCE_MAX))
