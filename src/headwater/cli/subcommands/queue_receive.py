"""`headwater queue receive`, `peek` and `stats`: what is in a queue, and what of it is taken."""

from typing import TYPE_CHECKING

import click

from headwater.cli.duration import Duration, duration_text
from headwater.cli.options import bootstrap_option, connect
from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.cli.rows.record_rows import Row
    from headwater.client.groups.queue_consumer import PeekedRecord, ReceivedRecord

RECORDS_MAX = 1000

topics_argument = click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
group_option = click.option("--group", metavar="NAME", required=True, help="The share group that works on the queue.")
max_option = click.option(
    "--max", "count_max", type=click.IntRange(1, RECORDS_MAX), default=1, show_default=True, help="So many at most."
)


@click.command()
@topics_argument
@group_option
@max_option
@click.option("--wait", "wait_ms", type=Duration(), help="How long to wait for the first record, such as 10s.")
@click.option(
    "--lock",
    "lock_ms",
    type=Duration(),
    help="How long the records are held, such as 30s.  [default: the group's share.record.lock.duration.ms]",
)
@click.option(
    "--from",
    "start",
    type=click.Choice(("beginning", "end")),
    default="beginning",
    show_default=True,
    help="Where a new group begins, unless its share.auto.offset.reset is set.",
)
@format_option
@bootstrap_option
def receive(
    topics: tuple[str, ...],
    group: str,
    count_max: int,
    wait_ms: int | None,
    lock_ms: int | None,
    start: str,
    format: str,
    bootstrap: str,
) -> None:
    """Take records of TOPIC, or of several, for a share group. A group that does not exist is created.

    Nobody else is given them while they are held. Each comes with a receipt: say with `headwater queue ack`, `nack` or
    `reject` what became of the record before the time is over, or hold it for longer with `extend`. DELIVERY is how
    often the record was delivered, this time included.

    \b
    Examples:
      headwater queue receive orders --group billing
      headwater queue receive orders --group billing --max 100 --wait 20s --lock 1m --format json
    """
    from headwater.client.groups.queue_consumer import EARLIEST, LATEST, QueueConsumer

    with connect(bootstrap) as cluster:
        consumer = QueueConsumer(cluster, group, topics, reset=EARLIEST if start == "beginning" else LATEST)
        received = consumer.receive(count_max, wait_ms=wait_ms or 0, lock_duration_ms=lock_ms)
    if not received and format == "table":
        click.echo("no record is available")
        return
    rows = [{**_row(each, format), "delivery": each.delivery_count, "receipt": each.receipt} for each in received]
    show(rows, format, ("topic", "partition", "offset", "delivery", "key", "value", "receipt"))


@click.command()
@topics_argument
@group_option
@max_option
@format_option
@bootstrap_option
def peek(topics: tuple[str, ...], group: str, count_max: int, format: str, bootstrap: str) -> None:
    """Show the first records of TOPIC that a share group is not done with. Nothing is taken.

    STATE is `available`, `held` (a client has it) or `waiting` (for its next delivery), DELIVERIES how often the record
    was delivered.

    \b
    Examples:
      headwater queue peek orders --group billing
      headwater queue peek orders --group billing --max 20 --format json
    """
    from headwater.client.groups.queue_consumer import QueueConsumer

    with connect(bootstrap) as cluster:
        peeked = QueueConsumer(cluster, group, topics).peek(count_max)
    if not peeked and format == "table":
        click.echo(f"group {group!r} is done with all records")
        return
    rows = [{**_row(each, format), "state": each.state, "deliveries": each.delivery_count} for each in peeked]
    show(rows, format, ("topic", "partition", "offset", "state", "deliveries", "key", "value"))


@click.command()
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@group_option
@format_option
@bootstrap_option
def stats(topics: tuple[str, ...], group: str, format: str, bootstrap: str) -> None:
    """Show how far a share group is, in each partition that it has begun with.

    BACKLOG is what it is not done with; of that, HELD is what clients have, and WAITING what came back and waits for
    its next delivery. OLDEST is for how long the oldest of the backlog has been in the topic. DELIVERIES, ACCEPTED and
    ARCHIVED (rejected, or delivered too often) are counted since the broker started.

    \b
    Examples:
      headwater queue stats --group billing
      headwater queue stats orders --group billing --format json
    """
    from headwater.client.coordinator import GroupCoordinator
    from headwater.client.groups.queue_consumer import queue_stats

    with connect(bootstrap) as cluster:
        found = queue_stats(GroupCoordinator(cluster, group), topics or None)
    if not found and format == "table":
        click.echo(f"group {group!r} has begun with no partition")
        return
    rows = [each._asdict() for each in found]
    if format == "table":
        for row, each in zip(rows, found, strict=True):
            row["oldest"] = None if each.oldest_age_ms is None else duration_text(each.oldest_age_ms)
    columns = ("topic", "partition", "backlog", "held", "waiting", "oldest", "deliveries", "accepted", "archived")
    show(rows, format, columns)


def _row(record: "ReceivedRecord | PeekedRecord", format: str) -> "Row":
    from headwater.cli.rows.record_rows import record_row, text_cell

    where: Row = {"topic": record.topic, "partition": record.partition}
    row = where | record_row(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
    if format == "table":
        row |= {"key": text_cell(record.key), "value": text_cell(record.value)}
    return row
