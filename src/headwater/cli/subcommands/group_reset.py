"""`headwater group reset`: moves the committed offsets of a group without members.

Law: the plan is shown before anything is changed, and every new offset lies in the range that its partition holds.
"""

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from headwater.cli.options import (
    INT64_MAX,
    Moment,
    TopicSelection,
    TopicSelectionType,
    bootstrap_option,
    connect,
    selected_partitions,
)
from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster
    from headwater.client.groups.admin import GroupAdmin
    from headwater.client.groups.group_offsets import CommittedOffset
    from headwater.ids import TopicPartition


class ResetTarget(NamedTuple):
    """Where to move the offsets: `kind` is earliest, latest, offset, time or shift."""

    kind: str
    number: int = 0


class Step(NamedTuple):
    """The plan for one partition. `after` is the wanted offset, clamped to the range that the partition holds."""

    partition: "TopicPartition"
    before: int | None
    wanted: int
    earliest: int
    latest: int

    @property
    def after(self) -> int:
        return min(max(self.wanted, self.earliest), self.latest)

    @property
    def note(self) -> str | None:
        if self.after == self.wanted:
            return None
        return f"{self.wanted} is {'before the start' if self.wanted < self.earliest else 'behind the end'}"

    def row(self) -> dict[str, object]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "before": self.before,
            "after": self.after,
            "shift": None if self.before is None else self.after - self.before,
            "earliest": self.earliest,
            "latest": self.latest,
            "note": self.note,
        }


@click.command()
@click.argument("name", metavar="GROUP")
@click.option("--to-earliest", is_flag=True, help="To the oldest record of each partition.")
@click.option(
    "--to-latest", is_flag=True, help="To the end of each partition, so that all that is there is passed over."
)
@click.option("--to-offset", type=click.IntRange(0, INT64_MAX), metavar="N", help="To this offset in each partition.")
@click.option("--to-time", type=Moment(), help="To the first record that is not older; ISO 8601, UTC if no zone.")
@click.option(
    "--by",
    type=click.IntRange(-INT64_MAX, INT64_MAX),
    metavar="N",
    help="By so many offsets, forward or, with a minus, back.",
)
@click.option("--topic", "chosen", type=TopicSelectionType(), multiple=True, help="Of this topic; may be repeated.")
@click.option("--all-topics", is_flag=True, help="Of every topic that the group has committed offsets of.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@bootstrap_option
def reset(
    name: str,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: int | None,
    by: int | None,
    chosen: tuple[TopicSelection, ...],
    all_topics: bool,
    dry_run: bool,
    yes: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Move the committed offsets of GROUP, so that its members read records again or pass over some.

    The plan is shown first: a row for each partition with the committed offset before and after. An offset that the
    partition does not hold is moved to the nearest one that it does, and a note says so. A group that has members is
    refused, because they would go on where they are: stop them first.

    \b
    Examples:
      headwater group reset billing --to-earliest --all-topics --dry-run
      headwater group reset billing --to-time 2025-06-01T12:30Z --topic orders --topic invoices
      headwater group reset billing --by -100 --topic orders:0,2 --yes
    """
    target = _target(earliest=to_earliest or None, latest=to_latest or None, offset=to_offset, time=to_time, shift=by)
    if bool(chosen) == all_topics:
        raise click.UsageError("which partitions? either --topic TOPIC[:PARTITIONS], or --all-topics")
    if dry_run and yes:
        raise click.UsageError("--dry-run changes nothing, so that there is nothing to say --yes to")
    from headwater.client.groups.admin import GroupAdmin

    with connect(bootstrap) as cluster:
        admin = GroupAdmin(cluster)
        _check_inactive(admin, name)
        committed = admin.committed(name)
        plan = _plan(cluster, name, _partitions(cluster, name, chosen, committed), committed, target)
        show([step.row() for step in plan], format, ("topic", "partition", "before", "after", "shift", "note"))
        if dry_run:
            click.echo(f"nothing was changed in group {name!r}", err=True)
            return
        if not yes and sys.stdin.isatty():
            click.confirm(f"Reset the offsets of {name!r} so?", abort=True, err=True)
        _carry_out(admin, name, plan)
    click.echo(f"reset {len(plan)} partition{'' if len(plan) == 1 else 's'} of group {name!r}", err=True)


def _target(**given: int | None) -> ResetTarget:
    targets = [ResetTarget(kind, int(number)) for kind, number in given.items() if number is not None]
    if len(targets) != 1:
        raise click.UsageError("where to? one of --to-earliest, --to-latest, --to-offset, --to-time and --by")
    return targets[0]


def _check_inactive(admin: "GroupAdmin", name: str) -> None:
    from headwater.cli.rows.group_rows import member_names
    from headwater.client.errors import UnknownGroup

    try:
        members = admin.describe_group(name).members
    except UnknownGroup:
        click.echo(f"note: group {name!r} does not exist yet", err=True)
        return
    if members:
        raise click.ClickException(
            f"group {name!r} is active, so that its offsets cannot be reset; "
            f"stop its members first: {member_names(members)}"
        )


def _partitions(
    cluster: "Cluster", name: str, chosen: Collection[TopicSelection], committed: "Iterable[TopicPartition]"
) -> "list[TopicPartition]":
    from headwater.client.errors import UnknownTopic
    from headwater.ids import TopicPartition

    partitions = selected_partitions(cluster, chosen)
    if not chosen:
        for topic in {partition.topic for partition in committed}:
            try:
                known = range(len(cluster.topic(topic).partitions))
            except UnknownTopic:
                click.echo(f"note: topic {topic!r} is gone, and its offsets stay as they are", err=True)
                continue
            partitions.update(TopicPartition(topic, index) for index in known)
        if not partitions:
            raise click.ClickException(f"group {name!r} has committed no offsets; name topics with --topic")
    return sorted(partitions)


def _plan(
    cluster: "Cluster",
    name: str,
    partitions: "list[TopicPartition]",
    committed: "Mapping[TopicPartition, CommittedOffset]",
    target: ResetTarget,
) -> list[Step]:
    from headwater.client.offsets import EARLIEST, LATEST, list_offsets

    if target.kind == "shift":
        fresh = [str(partition) for partition in partitions if partition not in committed]
        if fresh:
            click.echo(f"note: nothing is committed that could be shifted for {', '.join(fresh)}", err=True)
        partitions = [partition for partition in partitions if partition in committed]
        if not partitions:
            raise click.ClickException(
                f"group {name!r} has committed no offsets of these partitions; --by needs some, the others do not"
            )
    earliest, latest = list_offsets(cluster, partitions, EARLIEST), list_offsets(cluster, partitions, LATEST)
    match target.kind:
        case "earliest":
            wanted = earliest
        case "latest":
            wanted = latest
        case "offset":
            wanted = dict.fromkeys(partitions, target.number)
        case "time":
            wanted = list_offsets(cluster, partitions, target.number)
        case _:
            wanted = {partition: committed[partition].offset + target.number for partition in partitions}
    return [
        Step(
            partition,
            committed[partition].offset if partition in committed else None,
            wanted[partition],
            earliest[partition],
            latest[partition],
        )
        for partition in partitions
    ]


def _carry_out(admin: "GroupAdmin", name: str, plan: Iterable[Step]) -> None:
    from headwater.client.errors import Refused
    from headwater.client.groups.group_offsets import CommittedOffset

    try:
        admin.commit(name, {step.partition: CommittedOffset(step.after) for step in plan})
    except Refused:
        # If a member has joined since the plan was made, tell that: it is a better message than the broker's.
        _check_inactive(admin, name)
        raise
