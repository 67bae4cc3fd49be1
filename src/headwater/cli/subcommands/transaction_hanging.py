"""`headwater transaction find-hanging` and `abort-hanging`: transactions that no coordinator will ever end.

Law: a transaction is shown before it is aborted, and one that its coordinator will still end is refused.
"""

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import click

from headwater.cli.duration import Duration, duration_text
from headwater.cli.options import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    TopicSelection,
    TopicSelectionType,
    bootstrap_option,
    connect,
    selected_partitions,
    time_text,
    with_leader,
)
from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster
    from headwater.client.transactions.admin import OpenTransaction, TransactionAdmin
    from headwater.ids import TopicPartition

# The default of transaction.max.timeout.ms: older transactions should have ended.
MAX_TIMEOUT = "15m"
OFFSETS_NAMED_MAX = 10

_COLUMNS = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "start_offset",
    "last_written",
)


class HangingTransaction(NamedTuple):
    """A transaction to show or to abort. If the user named it by its producer, the offset and the timestamp are not
    known."""

    partition: "TopicPartition"
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    start_offset: int | None = None
    last_timestamp_ms: int | None = None

    def row(self, now_ms: int) -> dict[str, object]:
        written_ms = self.last_timestamp_ms
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "coordinator_epoch": self.coordinator_epoch,
            "start_offset": self.start_offset,
            "last_written": None if written_ms is None else time_text(written_ms),
            "last_written_ms": written_ms,
            "duration_ms": None if written_ms is None else now_ms - written_ms,
        }


@click.command("find-hanging")
@click.option(
    "--topic",
    "chosen",
    type=TopicSelectionType(),
    multiple=True,
    help="Only in this topic, or in these partitions of it; may be repeated. By default in all topics.",
)
@click.option(
    "--max-timeout",
    type=Duration(),
    default=MAX_TIMEOUT,
    show_default=True,
    help="The brokers' transaction.max.timeout.ms: only what was not written to for longer can hang.",
)
@format_option
@bootstrap_option
def find_hanging(chosen: tuple[TopicSelection, ...], max_timeout: int, format: str, bootstrap: str) -> None:
    """Find transactions that nobody will end.

    Such a transaction is open in a partition while no coordinator knows of it, so that consumers that read committed
    records only stand still before its start offset for good, and compaction with them. DURATION is how long ago the
    transaction wrote last.

    \b
    Examples:
      headwater transaction find-hanging
      headwater transaction find-hanging --topic orders:0,2 --topic invoices
      headwater transaction find-hanging --max-timeout 1h --format json
    """
    from headwater.client.transactions.admin import TransactionAdmin

    with connect(bootstrap) as cluster:
        partitions = _partitions(cluster, chosen)
        led = with_leader(cluster, partitions)
        if len(led) < len(partitions):
            missing = ", ".join(str(partition) for partition in partitions if partition not in led)
            click.echo(f"note: without a leader, and so not searched: {missing}", err=True)
        found = TransactionAdmin(cluster).find_hanging(led, idle_ms=max_timeout)
        rows = [_target(each).row(cluster.clock.now_ms()) for each in found]
    if format == "table":
        if not rows:
            count = f"{len(led)} partition{'' if len(led) == 1 else 's'}"
            click.echo(f"no transaction hangs in {count}")
            return
        for row in rows:
            row["duration"] = _duration(row)
    show(rows, format, (*_COLUMNS, "duration"))


@click.command("abort-hanging")
@click.option("--topic", required=True, metavar="TOPIC", help="The topic that it hangs in.")
@click.option(
    "--partition", "index", type=click.IntRange(0, INT32_MAX), required=True, metavar="N", help="And the partition."
)
@click.option(
    "--start-offset", type=click.IntRange(0, INT64_MAX), metavar="N", help="Where it began, as find-hanging tells."
)
@click.option(
    "--producer-id",
    type=click.IntRange(0, INT64_MAX),
    metavar="N",
    help="Instead of --start-offset, for brokers that cannot tell it: whose it is. Nothing is checked then.",
)
@click.option("--producer-epoch", type=click.IntRange(0, INT16_MAX), metavar="N", help="With --producer-id.")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(-1, INT32_MAX),
    metavar="N",
    help="With --producer-id; -1 where the partition knows none.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be aborted, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a person at a terminal is asked.")
@format_option
@bootstrap_option
def abort_hanging(
    topic: str,
    index: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    dry_run: bool,
    yes: bool,
    format: str,
    bootstrap: str,
) -> None:
    """Abort a transaction that hangs in a partition.

    Consumers that read committed records only go on then, and never see what it wrote there. `headwater transaction
    find-hanging` tells which ones hang; a transaction that its coordinator still knows is refused, because the
    coordinator ends it when its time is out.

    \b
    Examples:
      headwater transaction abort-hanging --topic orders --partition 0 --start-offset 1432 --dry-run
      headwater transaction abort-hanging --topic orders --partition 0 --start-offset 1432
      headwater transaction abort-hanging --topic orders --partition 0 --producer-id 4000 \\
          --producer-epoch 3 --coordinator-epoch 7 --yes
    """
    from headwater.ids import TopicName, TopicPartition

    partition = TopicPartition(TopicName(topic), index)
    choice = _choice(partition, start_offset, producer_id, producer_epoch, coordinator_epoch)
    if dry_run and yes:
        raise click.UsageError("--dry-run changes nothing, so that there is nothing to say --yes to")
    from headwater.client.transactions.admin import TransactionAdmin

    with connect(bootstrap) as cluster:
        cluster.partition(partition)
        admin = TransactionAdmin(cluster)
        target = choice if isinstance(choice, HangingTransaction) else _hanging_at(admin, partition, choice)
        show([target.row(cluster.clock.now_ms())], format, _COLUMNS)
        if dry_run:
            click.echo(f"nothing was changed in partition {partition}", err=True)
            return
        if not yes and sys.stdin.isatty():
            click.confirm(f"Abort this transaction in {str(partition)!r}?", abort=True, err=True)
        _abort(admin, target)
    click.echo(f"aborted the transaction of producer {target.producer_id} in partition {partition}", err=True)


def _partitions(cluster: "Cluster", chosen: Collection[TopicSelection]) -> "list[TopicPartition]":
    if not chosen:
        # Include internal topics: offsets are committed in transactions, too.
        chosen = [TopicSelection(topic.name, None) for topic in cluster.topics()]
    return sorted(selected_partitions(cluster, chosen))


def _target(found: "OpenTransaction") -> HangingTransaction:
    producer = found.producer
    return HangingTransaction(
        found.partition,
        producer.producer_id,
        producer.epoch,
        producer.coordinator_epoch,
        found.start_offset,
        producer.last_timestamp_ms,
    )


def _choice(
    partition: "TopicPartition",
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> HangingTransaction | int:
    """Return the transaction that the options name by its producer, or the offset at which it begins."""
    match start_offset, producer_id, producer_epoch, coordinator_epoch:
        case int(), None, None, None:
            return start_offset
        case None, int(), int(), int():
            # Accept -1 for an unknown epoch, as Kafka's own tool shows it; find-hanging shows a dash.
            return HangingTransaction(
                partition, producer_id, producer_epoch, coordinator_epoch if coordinator_epoch >= 0 else None
            )
        case _:
            raise click.UsageError(
                "which transaction? either --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
            )


def _hanging_at(admin: "TransactionAdmin", partition: "TopicPartition", start_offset: int) -> HangingTransaction:
    """Return the transaction that began at this offset. It is an error if there is none, or if it does not hang."""
    in_partition = admin.open_transactions([partition])
    found = next((each for each in in_partition if each.start_offset == start_offset), None)
    if found is None:
        offsets = ", ".join(str(each.start_offset) for each in in_partition[:OFFSETS_NAMED_MAX])
        those = f"those that are open begin at {offsets}" if offsets else "none is open there"
        raise click.ClickException(f"no transaction in {partition} begins at offset {start_offset}; {those}")
    owner = admin.owners([found]).get(found)
    if owner is not None:
        raise click.ClickException(
            f"the transaction that begins at offset {start_offset} of {partition} does not hang: its coordinator knows "
            f"it as that of transactional id {owner.transactional_id!r} (state {owner.state}), and ends it when its "
            f"time-out of {duration_text(owner.timeout_ms)} is over"
        )
    return _target(found)


def _abort(admin: "TransactionAdmin", target: HangingTransaction) -> None:
    from headwater.client.errors import Refused
    from headwater.errors import ErrorCode

    try:
        admin.abort(target.partition, target.producer_id, target.producer_epoch, target.coordinator_epoch)
    except Refused as refusal:
        match refusal.code:
            case ErrorCode.INVALID_PRODUCER_EPOCH:
                reason = f"producer {target.producer_id} has moved on from epoch {target.producer_epoch}"
            case ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                reason = f"a coordinator of a later epoch than {target.coordinator_epoch} is in charge of it"
            case _:
                raise
        raise click.ClickException(
            f"the transaction in {target.partition} was not aborted: {reason} ({refusal.code.name}); "
            "look again with `headwater transaction find-hanging`"
        ) from refusal


def _duration(row: "dict[str, object]") -> str | None:
    duration_ms = row["duration_ms"]
    return duration_text(duration_ms) if isinstance(duration_ms, int) else None
