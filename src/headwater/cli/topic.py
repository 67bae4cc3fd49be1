"""`headwater topic`: create, list, describe, alter and delete topics."""

import sys
from typing import TYPE_CHECKING

import click

from headwater.cli.options import Assignment, bootstrap_option, connect
from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster

# How long it may take until all brokers know of a topic that was just created.
CREATE_WAIT_MS = 5_000

_set_option = click.option(
    "--set",
    "settings",
    type=Assignment(),
    multiple=True,
    help="A setting, such as retention.ms=86400000; may be repeated.",
)
_dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Check whether it would be accepted, and change nothing."
)


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="How many; by default as many as the broker is set to.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="How many brokers keep a copy of each.")
@_set_option
@click.option("--if-not-exists", is_flag=True, help="Do nothing if there is such a topic.")
@_dry_run_option
@format_option
@bootstrap_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    settings: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    dry_run: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Create the topic NAME.

    Settings have Kafka's names; `headwater config --reference` explains them.
    """
    from headwater.client.admin import BROKER_DEFAULT, Admin
    from headwater.client.errors import Refused
    from headwater.errors import ErrorCode

    with connect(bootstrap, topic_wait_ms=CREATE_WAIT_MS) as cluster:
        try:
            created = Admin(cluster).create_topic(
                name,
                partition_count=partitions or BROKER_DEFAULT,
                replication_factor=replication_factor or BROKER_DEFAULT,
                settings=dict(settings),
                validate_only=dry_run,
            )
        except Refused as refusal:
            if not if_not_exists or refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            click.echo(f"topic {name!r} exists already, nothing was changed", err=True)
            return
    if format == "table":
        count = "" if created.partition_count < 0 else f" with {_count(created.partition_count, 'partition')}"
        also = "".join(f", {key}={value}" for key, value in settings)
        click.echo(f"{'would create' if dry_run else 'created'} topic {name!r}{count}{also}")
        return
    row = {
        "topic": name,
        "id": created.id,
        "partitions": created.partition_count,
        "replication_factor": created.replication_factor,
        "settings": dict(settings),
        "created": not dry_run,
    }
    show([row], format)


@topic.command("list")
@click.option("--internal", is_flag=True, help="Those that brokers keep for themselves as well.")
@format_option
@bootstrap_option
def list_topics(internal: bool, format: str, bootstrap: str) -> None:
    """List topics by name."""
    from headwater.client.admin import Admin

    with connect(bootstrap) as cluster:
        rows = [
            {
                "topic": found.name,
                "partitions": len(found.partitions),
                "replicas": max(len(partition.replicas) for partition in found.partitions),
                "id": found.id,
                "internal": found.is_internal,
            }
            for found in Admin(cluster).list_topics()
            if internal or not found.is_internal
        ]
    show(rows, format, ("topic", "partitions", "replicas"))


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--all-settings", is_flag=True, help="Those that have their default value as well.")
@format_option
@bootstrap_option
def describe(names: tuple[str, ...], all_settings: bool, format: str, bootstrap: str) -> None:
    """Show partitions, leaders, offsets and sizes of topics, and the settings that are not at their default."""
    with connect(bootstrap) as cluster:
        described = [_describe(cluster, name, all_settings=all_settings) for name in dict.fromkeys(names)]
    if format != "table":
        show([{**summary, "partitions": parts, "settings": settings} for summary, parts, settings in described], format)
        return
    for number, (summary, parts, settings) in enumerate(described):
        if number:
            click.echo()
        click.echo(
            f"topic {summary['topic']}  id {summary['id']}  records {summary['offsets']}  bytes {summary['bytes']}"
        )
        click.echo()
        show(parts, format)
        click.echo()
        if settings:
            show(settings, format, ("setting", "value", "source"))
        else:
            click.echo("all settings have their default values")


@topic.command()
@click.argument("name")
@_set_option
@click.option("--unset", multiple=True, metavar="NAME", help="Return a setting to its default; may be repeated.")
@_dry_run_option
@format_option
@bootstrap_option
def alter(
    name: str,
    settings: tuple[tuple[str, str], ...],
    unset: tuple[str, ...],
    dry_run: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Change settings of the topic NAME, and show what they are then. What is not named stays as it is."""
    if not settings and not unset:
        raise click.UsageError("nothing to change: --set NAME=VALUE or --unset NAME")
    from headwater.client.admin import Admin

    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        admin.alter_settings(name, dict(settings), unset, validate_only=dry_run)
        if dry_run:
            click.echo(f"would be accepted, nothing was changed in topic {name!r}", err=True)
        changed = {key for key, _ in settings} | set(unset)
        rows = [
            {"topic": name, "setting": setting.name, "value": setting.value, "source": setting.source}
            for setting in admin.describe_settings(name)
            if setting.name in changed
        ]
    show(rows, format)


@topic.command("add-partitions")
@click.argument("name")
@click.option("--total", type=click.IntRange(min=1), required=True, help="How many partitions it shall have in all.")
@_dry_run_option
@format_option
@bootstrap_option
def add_partitions(name: str, total: int, dry_run: bool, format: str, bootstrap: str) -> None:
    """Let the topic NAME grow to a total of so many partitions.

    Records that are there stay where they are, but from now on a key may belong to another partition than before.
    """
    from headwater.client.admin import Admin

    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        before = len(admin.describe_topic(name).partitions)
        admin.add_partitions(name, total, validate_only=dry_run)
    if format == "table":
        click.echo(
            f"topic {name!r} {'would have' if dry_run else 'has'} {_count(total, 'partition')} now, it had {before}"
        )
        return
    show([{"topic": name, "partitions": total, "partitions_before": before, "changed": not dry_run}], format)


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Pass over a topic that does not exist.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@bootstrap_option
def delete(names: tuple[str, ...], if_exists: bool, yes: bool, format: str, bootstrap: str) -> None:
    """Delete topics and all their records."""
    chosen = list(dict.fromkeys(names))
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {', '.join(map(repr, chosen))} and all records?", abort=True)
    deleted: dict[str, bool] = {}
    try:
        with connect(bootstrap) as cluster:
            for name in chosen:
                deleted[name] = _delete(cluster, name, if_exists=if_exists)
    finally:
        # Also after an error: the topics before it are deleted.
        if deleted:
            show([{"topic": name, "deleted": is_deleted} for name, is_deleted in deleted.items()], format)


def _delete(cluster: "Cluster", name: str, *, if_exists: bool) -> bool:
    from headwater.client.admin import Admin
    from headwater.client.errors import UnknownTopic

    try:
        Admin(cluster).delete_topic(name)
    except UnknownTopic:
        if not if_exists:
            raise
        return False
    return True


def _describe(
    cluster: "Cluster", name: str, *, all_settings: bool
) -> tuple[dict[str, object], list[dict[str, object]], list[dict[str, object]]]:
    """Return the row of the topic, the rows of its partitions and the rows of its settings."""
    from headwater.client.admin import Admin
    from headwater.client.offsets import EARLIEST, LATEST, list_offsets
    from headwater.ids import TopicName, TopicPartition

    admin = Admin(cluster)
    found = admin.describe_topic(name)
    # Nobody can be asked about a partition without a leader. It must not hide the others.
    led = [TopicPartition(TopicName(name), each.index) for each in found.partitions if each.leader >= 0]
    earliest, latest = list_offsets(cluster, led, EARLIEST), list_offsets(cluster, led, LATEST)
    sizes = {partition: size for partition, size in admin.partition_sizes(led).items() if size >= 0}
    partitions: list[dict[str, object]] = []
    for described in found.partitions:
        partition = TopicPartition(TopicName(name), described.index)
        partitions.append(
            {
                "partition": described.index,
                "leader": described.leader if described.leader >= 0 else None,
                "replicas": described.replicas,
                "in_sync": described.in_sync_replicas,
                "earliest": earliest.get(partition),
                "latest": latest.get(partition),
                "bytes": sizes.get(partition),
            }
        )
    summary: dict[str, object] = {
        "topic": name,
        "id": found.id,
        "internal": found.is_internal,
        "offsets": sum(latest[partition] - earliest[partition] for partition in led),
        "bytes": sum(sizes.values()),
    }
    settings: list[dict[str, object]] = [
        {
            "setting": setting.name,
            "value": setting.value,
            "source": setting.source,
            "documentation": setting.documentation,
        }
        for setting in admin.describe_settings(name)
        if all_settings or not setting.is_default
    ]
    return summary, partitions, settings


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
