"""`headwater group`: list, describe, reset and delete consumer groups."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from headwater.cli.duration import duration_text
from headwater.cli.options import bootstrap_option, connect
from headwater.cli.output import format_option, show
from headwater.cli.subcommands.group_reset import reset
from headwater.printable import printable

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster

STATES = ("Empty", "Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
TYPES = ("classic", "consumer", "share")
SHARE_COLUMNS = (
    "topic", "partition", "start", "end", "backlog", "held", "waiting", "oldest", "deliveries", "archived", "members"
)  # fmt: skip


@click.group()
def group() -> None:
    """List, describe, reset and delete consumer groups and share groups.

    A group is a name under which several consumers share the partitions of topics, and under which the broker keeps how
    far they came: the committed offsets. Groups come into being when a consumer joins them (`headwater consume TOPIC
    --group NAME`). Consumers of a share group share the records of each partition instead, one by one.
    """


group.add_command(reset)


@group.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only those in this state; may be repeated.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="Only those of this type; may be repeated.",
)
@format_option
@bootstrap_option
def list_groups(states: tuple[str, ...], types: tuple[str, ...], format: str, bootstrap: str) -> None:
    """List groups by name.

    \b
    Examples:
      headwater group list
      headwater group list --state Stable --state Empty
      headwater group list --type consumer --format json
    """
    from headwater.client.groups.admin import GroupAdmin

    with connect(bootstrap) as cluster:
        rows = [
            {"group": found.group_id, "type": found.type, "state": found.state, "protocol": found.protocol_type}
            for found in GroupAdmin(cluster).list_groups(states=states, types=types)
        ]
    show(rows, format, ("group", "type", "state", "protocol"))


@group.command()
@click.argument("name", metavar="GROUP")
@format_option
@bootstrap_option
def describe(name: str, format: str, bootstrap: str) -> None:
    """Show the state of GROUP, and for each partition how far it came and who reads it.

    A row stands for each partition that is assigned to a member or that an offset is committed for: the committed
    offset (the next one to read), the end of the partition, the lag between the two, and the member that has the
    partition now. A dash stands where there is none.

    A share group has, instead, the offset before which everything is done with, the backlog (what is not done with:
    records to come, to come again, or held by clients), how much of it is held and how much waits for its next
    delivery, for how long the oldest of it has been in the topic, and the number of members that read the partition.
    Deliveries and archived records (rejected, or delivered too often) are counted since the broker started.

    \b
    Examples:
      headwater group describe billing
      headwater group describe billing --format json
    """
    from headwater.cli.rows.group_rows import partition_rows, share_partition_rows, summary
    from headwater.client.groups.admin import GroupAdmin

    with connect(bootstrap) as cluster:
        described = GroupAdmin(cluster).describe_group(name)
        is_share = described.type == "share"
        partitions = (share_partition_rows if is_share else partition_rows)(cluster, described)
    behind = "backlog" if is_share else "lag"
    lags = [lag for row in partitions if isinstance(lag := row[behind], int)]
    whole = {**summary(described), "members": len(described.members), behind: sum(lags)}
    if format != "table":
        show([{**whole, "partitions": partitions}], format)
        return
    for row in partitions if is_share else ():
        age_ms = row["oldest_age_ms"]
        row["oldest"] = duration_text(age_ms) if isinstance(age_ms, int) else None
    _show_summary(whole)
    click.echo()
    if partitions:
        show(partitions, format, SHARE_COLUMNS if is_share else None)
    else:
        click.echo("no partition is assigned, and " + ("none was begun with" if is_share else "no offset is committed"))


@group.command()
@click.argument("name", metavar="GROUP")
@format_option
@bootstrap_option
def members(name: str, format: str, bootstrap: str) -> None:
    """Show the members of GROUP, where they run, and which partitions they have.

    TARGET tells, in a group of the next-generation protocol, which partitions a member will have when the rebalance
    that is under way is done.

    \b
    Examples:
      headwater group members billing
      headwater group members billing --format yaml
    """
    from headwater.cli.rows.group_rows import abbreviated, by_topic, member_row
    from headwater.client.groups.admin import GroupAdmin

    with connect(bootstrap) as cluster:
        found = GroupAdmin(cluster).describe_group(name).members
    rows = [member_row(member) for member in found]
    if format == "table":
        if not rows:
            click.echo(f"group {name!r} has no members")
            return
        for member, row in zip(found, rows, strict=True):
            row["assigned"], row["target"] = (
                abbreviated(by_topic(member.assigned)),
                abbreviated(by_topic(member.target)),
            )
    show(rows, format, ("member", "instance_id", "client_id", "host", "protocol", "epoch", "assigned", "target"))


@group.command()
@click.argument("name", metavar="GROUP")
@format_option
@bootstrap_option
def offsets(name: str, format: str, bootstrap: str) -> None:
    """Show the offsets that GROUP has committed, with their metadata, the ends of the partitions and the lags.

    Of a share group, show the offsets before which everything is done with, and the backlogs.

    \b
    Examples:
      headwater group offsets billing
      headwater group offsets billing --format json
    """
    from headwater.cli.rows.group_rows import lag, offsets_at, share_partition_rows
    from headwater.client.errors import UnknownGroup
    from headwater.client.groups.admin import GroupAdmin
    from headwater.client.offsets import LATEST

    with connect(bootstrap) as cluster:
        admin = GroupAdmin(cluster)
        try:
            committed = admin.committed(name)
        except UnknownGroup:
            committed = {}
        if not committed:
            # A missing group has no offsets, either. Describing it raises the error.
            described = admin.describe_group(name)
            if described.type == "share":
                show(
                    share_partition_rows(cluster, described), format, ("topic", "partition", "start", "end", "backlog")
                )
                return
        ends = offsets_at(cluster, committed, LATEST)
    if not committed and format == "table":
        click.echo(f"group {name!r} has committed no offsets")
        return
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": found.offset,
            "leader_epoch": found.leader_epoch if found.leader_epoch >= 0 else None,
            "metadata": found.metadata or None,
            "end": ends.get(partition),
            "lag": lag(found.offset, ends.get(partition)),
        }
        for partition, found in sorted(committed.items())
    ]
    show(rows, format)


@group.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Pass over a group that does not exist.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@bootstrap_option
def delete(names: tuple[str, ...], if_exists: bool, yes: bool, format: str, bootstrap: str) -> None:
    """Delete groups and all offsets that they have committed. A group that has members is refused.

    \b
    Examples:
      headwater group delete billing
      headwater group delete billing reports --if-exists --yes
    """
    chosen = list(dict.fromkeys(names))
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {', '.join(map(repr, chosen))} and all committed offsets?", abort=True)
    deleted: dict[str, bool] = {}
    try:
        with connect(bootstrap) as cluster:
            for name in chosen:
                deleted[name] = _delete(cluster, name, if_exists=if_exists)
    finally:
        # Also after an error: the groups before it are deleted.
        if deleted:
            show([{"group": name, "deleted": is_deleted} for name, is_deleted in deleted.items()], format)


def _delete(cluster: "Cluster", name: str, *, if_exists: bool) -> bool:
    from headwater.cli.rows.group_rows import member_names
    from headwater.client.errors import Refused, UnknownGroup
    from headwater.client.groups.admin import GroupAdmin
    from headwater.errors import ErrorCode

    admin = GroupAdmin(cluster)
    try:
        admin.delete_group(name)
    except UnknownGroup:
        if not if_exists:
            raise
        return False
    except Refused as refusal:
        if refusal.code != ErrorCode.NON_EMPTY_GROUP:
            raise
        members = admin.describe_group(name).members
        raise click.ClickException(
            f"group {name!r} is active and cannot be deleted; stop its members first: {member_names(members)}"
        ) from refusal
    return True


def _show_summary(whole: Mapping[str, object]) -> None:
    epoch = "" if whole["epoch"] is None else f"  epoch {whole['epoch']}"
    # Clients choose some of these names, which may hold control characters.
    click.echo(
        printable(
            f"group {whole['group']}  type {whole['type']}  state {whole['state']}  "
            f"protocol {whole['protocol'] or '-'}  assignor {whole['assignor'] or '-'}{epoch}  "
            f"coordinator {whole['coordinator']} at {whole['coordinator_address']}  "
            f"members {whole['members']}  "
            + (f"backlog {whole['backlog']}" if "backlog" in whole else f"lag {whole['lag']}")
        )
    )
