"""`headwater acl`: add, list, remove and test rules about who may do what."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from headwater.cli.access_options import (
    OPERATION_NAMES,
    HostType,
    PrincipalType,
    check_operation,
    dashed,
    operation_option,
    resource_options,
    resources,
)
from headwater.cli.options import bootstrap_option, connect
from headwater.cli.output import format_option, show
from headwater.printable import printable
from headwater.security.acl import (
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    canonical_host,
    pattern_text,
    read_pattern,
    words,
)

if TYPE_CHECKING:
    from headwater.client.access import AccessAdmin
    from headwater.security.authorizer import Decision

ASSUMED_HOST = "127.0.0.1"
_COLUMNS = ("principal", "permission", "operation", "resource", "name", "host")


@click.group()
def acl() -> None:
    """Add, list, remove and test ACLs, the rules about who may do what.

    A rule allows or denies a user an operation on a topic, a group, a transactional id or the cluster. A name that ends
    with * stands for all names that begin so, and * alone for every name. What no rule allows is denied, and a rule
    that denies wins over all that allow. Sets of rules that many users need are roles: `headwater role`.
    """


@acl.command()
@click.option("--user", "users", type=PrincipalType(), multiple=True, required=True, help="Whom; * is everybody.")
@operation_option("operations", multiple=True, required=True)
@resource_options
@click.option("--host", "hosts", type=HostType(), multiple=True, help="From where; by default from everywhere.")
@click.option("--deny", is_flag=True, help="Forbid it, instead of allowing it.")
@click.option("--dry-run", is_flag=True, help="Show the rules, and add none.")
@format_option
@bootstrap_option
def add(
    users: tuple[str, ...],
    operations: tuple[str, ...],
    hosts: tuple[str, ...],
    deny: bool,
    dry_run: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Add rules, one for each user, operation and resource.

    \b
    Examples:
      headwater acl add --user ann --operation read --topic orders --group billing
      headwater acl add --user ann --operation write --operation describe --topic 'orders-*'
      headwater acl add --user '*' --operation all --topic secret --deny
    """
    from headwater.client.access import AccessAdmin

    chosen = resources()
    if not chosen:
        raise click.UsageError("nothing is named: --topic, --group, --transactional-id or --cluster")
    wanted = [OPERATION_NAMES[name] for name in operations]
    for resource_type, _ in chosen:
        for operation in wanted:
            check_operation(operation, resource_type)
    permission = Permission.DENY if deny else Permission.ALLOW
    acls = [
        Acl(resource_type, *read_pattern(name), principal, host, operation, permission)
        for principal in users
        for resource_type, name in chosen
        for operation in wanted
        for host in hosts or (WILDCARD,)
    ]
    if not dry_run:
        with connect(bootstrap) as cluster:
            AccessAdmin(cluster).create_acls(acls)
    _report(acls, format, done="added", planned="would add", is_done=not dry_run)


@acl.command("list")
@click.option("--user", "users", type=PrincipalType(), multiple=True, help="Only rules for this user; may be repeated.")
@operation_option("operations", multiple=True)
@resource_options
@format_option
@bootstrap_option
def list_acls(users: tuple[str, ...], operations: tuple[str, ...], format: str, bootstrap: str) -> None:
    """List rules. With a resource, all that apply to it, those of prefixes and of * as well.

    \b
    Examples:
      headwater acl list
      headwater acl list --user ann
      headwater acl list --topic orders-2025          # what applies to this topic
      headwater acl list --topic 'orders-*'           # the rules of exactly this prefix
    """
    from headwater.client.access import AccessAdmin

    filters = [
        # A plain name asks for everything that applies to it.
        each._replace(pattern=PatternType.MATCH)
        if each.pattern is PatternType.LITERAL and each.name != WILDCARD
        else each
        for each in _filters(users, operations)
    ]
    with connect(bootstrap) as cluster:
        show([_row(each) for each in _found(AccessAdmin(cluster), filters)], format, _COLUMNS)


@acl.command()
@click.option("--user", "users", type=PrincipalType(), multiple=True, help="Only rules for this user; may be repeated.")
@operation_option("operations", multiple=True)
@resource_options
@click.option("--all", "everything", is_flag=True, help="Every rule there is.")
@click.option("--dry-run", is_flag=True, help="Show the rules, and remove none.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@bootstrap_option
def remove(
    users: tuple[str, ...],
    operations: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    yes: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Remove the rules of a user, an operation or a resource.

    A name removes the rules with exactly this name: `--topic orders` leaves those of 'orders-*' and '*'.

    \b
    Examples:
      headwater acl remove --user ann --operation read --topic orders
      headwater acl remove --user ann
      headwater acl remove --all --dry-run
    """
    from headwater.client.access import AccessAdmin

    filters = _filters(users, operations)
    if everything is (filters != [AclFilter()]):
        raise click.UsageError("name a --user, an --operation or a resource, or --all alone")
    with connect(bootstrap) as cluster:
        admin = AccessAdmin(cluster)
        found = _found(admin, filters)
        if found and not dry_run:
            if not yes and sys.stdin.isatty():
                for each in found:
                    click.echo(printable(str(each)), err=True)
                click.confirm(f"Remove {_count(len(found))}?", abort=True)
            # Just what was shown, although others may have been added meanwhile.
            found = sorted(admin.delete_acls([AclFilter(*each) for each in found]), key=_order)
    _report(found, format, done="removed", planned="would remove", is_done=not dry_run)


@acl.command()
@click.option("--user", type=PrincipalType(), required=True, help="Who does it.")
@operation_option("operation", required=True)
@resource_options
@click.option("--host", type=HostType(), help=f"From where; {ASSUMED_HOST} is assumed.")
@format_option
@bootstrap_option
def test(user: str, operation: str, host: str | None, format: str, bootstrap: str) -> int:
    """Say whether a user may do something, and why.

    The broker's rules and roles are read, and decided by as the broker decides; nothing is tried. The exit code is 0 if
    it is allowed and 1 if it is denied.

    \b
    Examples:
      headwater acl test --user ann --operation read --topic orders
      headwater acl test --user ann --operation write --topic orders --host 10.0.0.1
    """
    from headwater.client.access import AccessAdmin

    chosen = resources()
    if len(chosen) != 1:
        raise click.UsageError("name one resource: --topic, --group, --transactional-id or --cluster")
    resource = Resource(*chosen[0])
    if host == WILDCARD:
        raise click.UsageError("--host names one address here")
    asked = OPERATION_NAMES[operation]
    check_operation(asked, resource.type)
    with connect(bootstrap) as cluster:
        decision, origin = _decide(AccessAdmin(cluster), user, host or ASSUMED_HOST, asked, resource)
    row = {
        "principal": user,
        "operation": dashed(asked),
        "resource": dashed(resource.type),
        "name": resource.name,
        "host": host or ASSUMED_HOST,
        "host_is_assumed": host is None,
        "allowed": decision.is_allowed,
        "because": origin,
    }
    if format == "table":
        assumed = f" (assuming host {ASSUMED_HOST}; --host names another)" if host is None else ""
        verdict = f"allowed: {user} may" if decision.is_allowed else f"denied: {user} may not"
        click.echo(printable(f"{verdict} {words(asked)} {resource}, because {origin}{assumed}"))
    else:
        show([row], format)
    return 0 if decision.is_allowed else 1


def _decide(
    admin: "AccessAdmin", principal: str, host: str, operation: Operation, resource: Resource
) -> "tuple[Decision, str]":
    """Decide as the broker would. Also give the rule, role or setting that decides, in words."""
    from headwater.client.errors import UnsupportedApi
    from headwater.security.authorizer import AclAuthorizer, Reason
    from headwater.security.principals import parse_principal
    from headwater.security.roles import rules_of

    settings = admin.authorizer_settings()
    authorizer = AclAuthorizer(settings.super_users, allows_without_rules=settings.allows_without_rules)
    origins: dict[Acl, str] = {}
    try:
        roles = admin.describe_roles()
    except UnsupportedApi:
        # Apache Kafka's brokers have none.
        roles = []
    for described in roles:
        for grant in described.grants:
            for rule in rules_of(described.role, grant):
                authorizer.add(rule)
                origins[rule] = f"of the {grant}"
    for rule in admin.describe_acls(AclFilter(resource.type, resource.name, PatternType.MATCH)):
        authorizer.add(rule)
        origins[rule] = f"of the rule that {rule}"
    decision = authorizer.decide(parse_principal(principal), canonical_host(host), operation, resource)
    return decision, decision.rule.value if isinstance(decision.rule, Reason) else origins[decision.rule]


def _filters(users: Iterable[str], operations: Iterable[str]) -> list[AclFilter]:
    """One filter for each combination of what is named. What is not named is left open."""
    named = [(resource_type, *read_pattern(name)) for resource_type, name in resources()]
    return [
        AclFilter(resource_type, name, pattern, principal, None, operation)
        for principal in tuple(users) or (None,)
        for operation in [OPERATION_NAMES[each] for each in operations] or [Operation.ANY]
        for resource_type, name, pattern in named or [(ResourceType.ANY, None, PatternType.ANY)]
    ]


def _found(admin: "AccessAdmin", filters: Iterable[AclFilter]) -> list[Acl]:
    return sorted({found for each in filters for found in admin.describe_acls(each)}, key=_order)


def _order(acl: Acl) -> tuple[object, ...]:
    return acl.principal, acl.resource_type, acl.name, acl.pattern, acl.operation, acl.permission, acl.host


def _row(acl: Acl) -> dict[str, object]:
    return {
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": dashed(acl.operation),
        "resource": dashed(acl.resource_type),
        "name": pattern_text(acl.name, acl.pattern),
        "pattern": acl.pattern.name.lower(),
        "host": acl.host,
    }


def _report(acls: list[Acl], format: str, *, done: str, planned: str, is_done: bool) -> None:
    if format != "table":
        show([{**_row(each), done: is_done} for each in acls], format)
        return
    click.echo(f"{done if is_done else planned} {_count(len(acls))}")
    for each in acls:
        click.echo(printable(f"  {each}"))


def _count(number: int) -> str:
    return "1 rule" if number == 1 else f"{number} rules"
