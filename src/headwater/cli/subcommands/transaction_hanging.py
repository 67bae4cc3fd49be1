"""`headwater transaction find-hanging` and `abort-hanging`: the transactions that nobody will end.

Law: what is to be aborted is shown before it is, and one that its coordinator will still end is refused.
"""

import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

import click

from headwater.cli.duration import Duration, duration_text
from headwater.cli.options import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    Chosen,
    ChosenType,
    bootstrap_option,
    connect,
    time_text,
)
from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster
    from headwater.client.transactions.admin import OpenTransaction, TransactionAdmin
    from headwater.ids import TopicPartition

# The default of transaction.max.timeout.ms: whatever is older should have ended long ago.
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
    """What to abort. Where a transaction is named by its producer, nothing more is known of it."""

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
    type=ChosenType(),
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
def find_hanging(chosen: tuple[Chosen, ...], max_timeout: int, format: str, bootstrap: str) -> None:
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
    which = _which(partition, start_offset, producer_id, producer_epoch, coordinator_epoch)
    if dry_run and yes:
        raise click.UsageError("--dry-run changes nothing, so that there is nothing to say --yes to")
    from headwater.client.transactions.admin import TransactionAdmin

    with connect(bootstrap) as cluster:
        cluster.partition(partition)
        admin = TransactionAdmin(cluster)
        target = which if isinstance(which, HangingTransaction) else _hanging_at(admin, partition, which)
        show([target.row(cluster.clock.now_ms())], format, _COLUMNS)
        if dry_run:
            click.echo(f"nothing was changed in partition {partition}", err=True)
            return
        if not yes and sys.stdin.isatty():
            click.confirm(f"Abort this transaction in {str(partition)!r}?", abort=True, err=True)
        _abort(admin, target)
    click.echo(f"aborted the transaction of producer {target.producer_id} in partition {partition}", err=True)


def with_leader(cluster: "Cluster", partitions: "Iterable[TopicPartition]") -> "list[TopicPartition]":
    """Those that are there and can be asked."""
    from headwater.client.cluster import NO_LEADER
    from headwater.client.errors import UnknownTopic

    led: list[TopicPartition] = []
    for partition in partitions:
        try:
            if cluster.partition(partition).leader != NO_LEADER:
                led.append(partition)
        except UnknownTopic:
            continue
    return led


def _partitions(cluster: "Cluster", chosen: Collection[Chosen]) -> "list[TopicPartition]":
    from headwater.ids import TopicName, TopicPartition

    if not chosen:
        # Also those that brokers keep for themselves: offsets are committed in transactions, too.
        chosen = [Chosen(topic.name, None) for topic in cluster.topics()]
    partitions: set[TopicPartition] = set()
    for topic, indexes in chosen:
        known = range(len(cluster.topic(topic).partitions))
        for index in known if indexes is None else indexes:
            partition = TopicPartition(TopicName(topic), index)
            cluster.partition(partition)
            partitions.add(partition)
    return sorted(partitions)


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


def _which(
    partition: "TopicPartition",
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> HangingTransaction | int:
    """Which transaction is meant: that of a producer, or that which begins at an offset."""
    match start_offset, producer_id, producer_epoch, coordinator_epoch:
        case int(), None, None, None:
            return start_offset
        case None, int(), int(), int():
            # find-hanging shows none where Kafka's own tool shows -1.
            return HangingTransaction(
                partition, producer_id, producer_epoch, coordinator_epoch if coordinator_epoch >= 0 else None
            )
        case _:
            raise click.UsageError(
                "which transaction? either --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
            )


def _hanging_at(admin: "TransactionAdmin", partition: "TopicPartition", start_offset: int) -> HangingTransaction:
    """The transaction that began there, if it hangs."""
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
