"""`headwater role`: create, delete, grant, revoke and list roles."""

import sys

import click

from headwater.cli.access_options import (
    OPERATION_NAMES,
    RESOURCE_TYPE_NAMES,
    PrincipalType,
    check_operation,
    dashed,
)
from headwater.cli.options import bootstrap_option, connect
from headwater.cli.output import format_option, show
from headwater.printable import printable
from headwater.security.acl import Operation, PatternType, ResourceType, pattern_text, read_pattern
from headwater.security.roles import Role, RoleGrant


class PermissionsType(click.ParamType[tuple[ResourceType, frozenset[Operation]]]):
    name = "TYPE:OPERATION,..."

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[ResourceType, frozenset[Operation]]:
        kind, _, named = value.lower().partition(":")
        resource_type = RESOURCE_TYPE_NAMES.get(kind)
        operations = [OPERATION_NAMES.get(each.strip()) for each in named.split(",")]
        if resource_type is None:
            self.fail(f"{value!r} begins with no resource type: {', '.join(RESOURCE_TYPE_NAMES)}", param, ctx)
        found = frozenset(each for each in operations if each is not None)
        if len(found) != len(operations):
            self.fail(f"{value!r} is not TYPE:OPERATION,..., such as topic:read,describe", param, ctx)
        for operation in found:
            check_operation(operation, resource_type)
        return resource_type, found


class TargetType(click.ParamType[tuple[ResourceType, str, PatternType]]):
    """What a role is granted on: a pattern of names, for resources of one type (`group:billing`) or all."""

    name = "[TYPE:]NAME"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[ResourceType, str, PatternType]:
        kind, colon, name = value.partition(":")
        resource_type = RESOURCE_TYPE_NAMES.get(kind) if colon else None
        name = value if resource_type is None else name
        if not name:
            self.fail(f"{value!r} has no name; '*' stands for all", param, ctx)
        return resource_type or ResourceType.ANY, *read_pattern(name)


_user_option = click.option("--user", "principal", type=PrincipalType(), required=True, help="To whom.")


@click.group()
def role() -> None:
    """Create, delete, grant, revoke and list roles, which are sets of permissions.

    Three are ready. A reader consumes topics, also in groups. A writer produces to topics, also in transactions. An
    operator creates, changes and deletes topics, groups and settings, but neither sees records nor changes users, rules
    and roles.

    A role is granted on names: on `orders-*`, its permissions are for all topics, groups and transactional ids whose
    names begin so. Permissions on the cluster come with a grant on `*`.
    """


@role.command()
@click.argument("name")
@click.option(
    "--allow",
    "permissions",
    type=PermissionsType(),
    multiple=True,
    required=True,
    help="What it allows, such as topic:read,describe; may be repeated.",
)
@format_option
@bootstrap_option
def create(
    name: str, permissions: tuple[tuple[ResourceType, frozenset[Operation]], ...], format: str, bootstrap: str
) -> None:
    """Create the role NAME. Nobody has it until it is granted.

    \b
    Examples:
      headwater role create auditor --allow topic:describe,describe-configs --allow group:describe
    """
    from headwater.client.access import AccessAdmin

    merged: dict[ResourceType, frozenset[Operation]] = {}
    for resource_type, operations in permissions:
        merged[resource_type] = merged.get(resource_type, frozenset()) | operations
    created = Role(name, merged)
    with connect(bootstrap) as cluster:
        AccessAdmin(cluster).create_role(created)
    if format == "table":
        click.echo(f"created role {name!r}: {', '.join(_permission_texts(created))}")
    else:
        show([{"role": name, "permissions": _permission_texts(created), "created": True}], format)


@role.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@bootstrap_option
def delete(names: tuple[str, ...], yes: bool, format: str, bootstrap: str) -> None:
    """Delete roles. One that is granted is refused; `headwater role revoke` comes first."""
    from headwater.client.access import AccessAdmin

    chosen = list(dict.fromkeys(names))
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {', '.join(map(repr, chosen))}?", abort=True)
    deleted: list[str] = []
    try:
        with connect(bootstrap) as cluster:
            for name in chosen:
                AccessAdmin(cluster).delete_role(name)
                deleted.append(name)
    finally:
        # Also after an error: the roles before it are deleted.
        if deleted:
            show([{"role": name, "deleted": True} for name in deleted], format)


@role.command()
@click.argument("name", metavar="ROLE")
@_user_option
@click.option(
    "--on",
    "targets",
    type=TargetType(),
    multiple=True,
    required=True,
    help="On which names, such as orders-*, group:billing or *; may be repeated.",
)
@format_option
@bootstrap_option
def grant(
    name: str,
    principal: str,
    targets: tuple[tuple[ResourceType, str, PatternType], ...],
    format: str,
    bootstrap: str,
) -> None:
    """Grant ROLE to a user.

    \b
    Examples:
      headwater role grant writer --user ann --on 'orders-*'
      headwater role grant reader --user ann --on topic:orders --on group:billing
      headwater role grant operator --user eve --on '*'
    """
    from headwater.client.access import AccessAdmin

    grants = [RoleGrant(name, principal, *target) for target in dict.fromkeys(targets)]
    granted: list[RoleGrant] = []
    try:
        with connect(bootstrap) as cluster:
            for each in grants:
                AccessAdmin(cluster).grant(each)
                granted.append(each)
    finally:
        _report(granted, format, "granted")


@role.command()
@click.argument("name", metavar="ROLE")
@click.option("--user", "principal", type=PrincipalType(), required=True, help="From whom.")
@click.option("--on", "targets", type=TargetType(), multiple=True, help="On which names; by default on all.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@bootstrap_option
def revoke(
    name: str,
    principal: str,
    targets: tuple[tuple[ResourceType, str, PatternType], ...],
    yes: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Revoke ROLE from a user: the grants with just these names, or all.

    \b
    Examples:
      headwater role revoke writer --user ann --on 'orders-*'
      headwater role revoke writer --user ann
    """
    from headwater.client.access import AccessAdmin

    revoked: list[RoleGrant] = []
    with connect(bootstrap) as cluster:
        admin = AccessAdmin(cluster)
        grants = [RoleGrant(name, principal, *target) for target in dict.fromkeys(targets)] or [
            grant
            for described in admin.describe_roles()
            for grant in described.grants
            if (grant.role, grant.principal) == (name, principal)
        ]
        if not grants:
            raise click.ClickException(f"role {name!r} is not granted to {principal}")
        if len(grants) > 1 and not yes and sys.stdin.isatty():
            for each in grants:
                click.echo(printable(str(each)), err=True)
            click.confirm(f"Revoke these {len(grants)} grants?", abort=True)
        try:
            for each in grants:
                admin.revoke(each)
                revoked.append(each)
        finally:
            _report(revoked, format, "revoked")


@role.command("list")
@click.option("--user", "principal", type=PrincipalType(), help="Only roles that are granted to this user.")
@format_option
@bootstrap_option
def list_roles(principal: str | None, format: str, bootstrap: str) -> None:
    """List roles, what they allow, and to whom they are granted.

    \b
    Examples:
      headwater role list
      headwater role list --user ann --format json
    """
    from headwater.client.access import AccessAdmin

    with connect(bootstrap) as cluster:
        described = AccessAdmin(cluster).describe_roles()
    rows: list[dict[str, object]] = []
    for each in described:
        grants = [grant for grant in each.grants if principal in (None, grant.principal)]
        if not grants and principal is not None:
            continue
        told = [f"{_target(grant)} for {grant.principal}" for grant in grants]
        rows.append(
            {
                "role": each.role.name,
                "permissions": _permission_texts(each.role),
                "granted": told if format == "table" else [_row(grant) for grant in grants],
                "ready": each.is_ready,
            }
        )
    show(rows, format, ("role", "permissions", "granted"))


def _permission_texts(role: Role) -> list[str]:
    return [
        f"{dashed(resource_type)}:{','.join(dashed(each) for each in sorted(operations))}"
        for resource_type, operations in sorted(role.permissions.items())
    ]


def _target(grant: RoleGrant) -> str:
    kind = "" if grant.resource_type is ResourceType.ANY else f"{dashed(grant.resource_type)}:"
    return f"{kind}{pattern_text(grant.name, grant.pattern)}"


def _row(grant: RoleGrant) -> dict[str, object]:
    return {"role": grant.role, "principal": grant.principal, "on": _target(grant)}


def _report(grants: list[RoleGrant], format: str, done: str) -> None:
    if format != "table":
        show([{**_row(each), done: True} for each in grants], format)
        return
    for each in grants:
        click.echo(printable(f"{done} {each}"))
