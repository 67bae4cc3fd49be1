"""`headwater transaction`: list and describe transactions, find and abort those that hang."""

from typing import TYPE_CHECKING

import click

from headwater.cli.duration import Duration, duration_text
from headwater.cli.options import INT64_MAX, bootstrap_option, connect, time_text, with_leader
from headwater.cli.output import format_option, show
from headwater.cli.subcommands.transaction_hanging import abort_hanging, find_hanging
from headwater.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.client.cluster import Cluster
    from headwater.client.transactions.admin import TransactionDescription

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


@click.group()
def transaction() -> None:
    """List and describe transactions, find and abort those that hang.

    A transaction makes what a producer writes to several partitions visible at once, or not at all, to those who read
    committed records only. The producer goes by its transactional id, and one broker, the coordinator of the id, knows
    how far its transaction has come.
    """


transaction.add_command(find_hanging)
transaction.add_command(abort_hanging)


@transaction.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    metavar="STATE",
    help=f"Only those in this state; may be repeated. One of {', '.join(STATES)}.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(0, INT64_MAX),
    multiple=True,
    metavar="N",
    help="Only that of this producer; may be repeated.",
)
@click.option(
    "--longer-than",
    type=Duration(),
    help="Only those that began longer ago, such as 30s or 15m; without --state, only those that are open.",
)
@click.option(
    "--match", "pattern", metavar="REGEX", help="Only ids that this regular expression (RE2) matches as a whole."
)
@format_option
@bootstrap_option
def list_transactions(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: int | None,
    pattern: str | None,
    format: str,
    bootstrap: str,
) -> None:
    """List transactional ids by name.

    STATE is that of the transaction that the id has now or had last.

    \b
    Examples:
      headwater transaction list
      headwater transaction list --state Ongoing --longer-than 30s
      headwater transaction list --match 'copier-.*' --format json
    """
    from headwater.client.errors import Refused
    from headwater.client.transactions.admin import OPEN_STATES, TransactionAdmin
    from headwater.errors import ErrorCode

    with connect(bootstrap) as cluster:
        try:
            listed = TransactionAdmin(cluster).list_transactions(
                # Brokers filter by the start of the last transaction even if it has ended, so ask for open states.
                states=states or (() if longer_than is None else OPEN_STATES),
                producer_ids=producer_ids,
                longer_than_ms=longer_than,
                pattern=pattern,
            )
        except Refused as refusal:
            if refusal.code != ErrorCode.INVALID_REGULAR_EXPRESSION:
                raise
            raise click.ClickException(
                f"--match {pattern!r} is not a regular expression that the broker accepts; it takes RE2's syntax, "
                "such as 'copier-.*', without look-around and back-references"
            ) from refusal
    rows = [
        {
            "transactional_id": found.transactional_id,
            "state": found.state,
            "producer_id": found.producer_id,
            "coordinator": found.coordinator,
        }
        for found in listed
    ]
    show(rows, format, ("transactional_id", "state", "producer_id", "coordinator"))


@transaction.command()
@click.argument("transactional_id", metavar="ID")
@format_option
@bootstrap_option
def describe(transactional_id: str, format: str, bootstrap: str) -> None:
    """Show the transaction of a transactional id.

    That is the one that ID has now or had last: its state, its producer, when it began, and where it wrote. A row
    stands for each partition that waits for its end: where the transaction began there, and when it wrote last. A dash
    stands where it has written nothing yet, or where its end is already known.

    \b
    Examples:
      headwater transaction describe copier-1
      headwater transaction describe copier-1 --format json
    """
    from headwater.client.transactions.admin import TransactionAdmin

    with connect(bootstrap) as cluster:
        described = TransactionAdmin(cluster).describe_transaction(transactional_id)
        partitions = _partition_rows(cluster, described)
        whole = _summary(described, cluster.clock.now_ms())
    if format != "table":
        show([{**whole, "partitions": partitions}], format)
        return
    _show_summary(whole)
    click.echo()
    if partitions:
        show(partitions, format, ("topic", "partition", "start_offset", "last_written"))
    else:
        click.echo("no partition waits for its end")


def _summary(described: "TransactionDescription", now_ms: int) -> dict[str, object]:
    from headwater.client.transactions.admin import OPEN_STATES

    started_ms = described.started_ms
    duration_ms = None if started_ms is None or described.state not in OPEN_STATES else now_ms - started_ms
    return {
        "transactional_id": described.transactional_id,
        "state": described.state,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "timeout_ms": described.timeout_ms,
        "started": None if started_ms is None else time_text(started_ms),
        "started_ms": started_ms,
        "duration_ms": duration_ms,
        "coordinator": described.coordinator.id,
        "coordinator_address": str(described.coordinator.endpoint),
        "published_batch_id": described.published_batch_id,
    }


def _partition_rows(cluster: "Cluster", described: "TransactionDescription") -> list[dict[str, object]]:
    from headwater.client.transactions.admin import TransactionAdmin

    led = with_leader(cluster, described.partitions)
    begun = {
        found.partition: found
        for found in TransactionAdmin(cluster).open_transactions(led)
        if found.producer.producer_id == described.producer_id
    }
    rows: list[dict[str, object]] = []
    for partition in described.partitions:
        found = begun.get(partition)
        written_ms = found and found.producer.last_timestamp_ms
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start_offset": found and found.start_offset,
                "last_written": None if written_ms is None else time_text(written_ms),
                "last_written_ms": written_ms,
            }
        )
    return rows


def _show_summary(whole: "Mapping[str, object]") -> None:
    duration_ms, started, batch_id = whole["duration_ms"], whole["started"] or "-", whole["published_batch_id"]
    since = f"since {started}, for {duration_text(duration_ms)}" if isinstance(duration_ms, int) else f"began {started}"
    # Clients choose the id, which may hold control characters.
    click.echo(
        printable(
            f"transactional id {whole['transactional_id']}  state {whole['state']}  {since}  "
            f"producer {whole['producer_id']}  epoch {whole['producer_epoch']}  "
            f"time-out {whole['timeout_ms']} ms  "
            f"coordinator {whole['coordinator']} at {whole['coordinator_address']}"
            f"{'' if batch_id is None else f'  published batch {batch_id}'}"
        )
    )
