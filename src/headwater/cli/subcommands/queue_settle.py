"""`headwater queue ack`, `nack`, `reject` and `extend`: what becomes of received records, by their receipts."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from headwater.cli.duration import Duration
from headwater.cli.options import bootstrap_option, connect
from headwater.cli.output import format_option, show
from headwater.cli.subcommands.queue_receive import group_option

if TYPE_CHECKING:
    from headwater.client.groups.queue_consumer import QueueConsumer

Command = TypeVar("Command", bound=Callable[..., object])

STANDARD_INPUT = "-"


def receipts_argument(command: Command) -> Command:
    return click.argument("receipts", metavar="RECEIPT...", nargs=-1, required=True)(command)


@click.command()
@receipts_argument
@group_option
@format_option
@bootstrap_option
def ack(receipts: tuple[str, ...], group: str, format: str, bootstrap: str) -> int:
    """Say that received records are done with: nobody is given them again.

    RECEIPT is what `headwater queue receive` gave; `-` reads receipts from standard input, one a line. A receipt is
    refused if its record is settled already, or was held for too long.

    \b
    Examples:
      headwater queue ack --group billing RECEIPT
      headwater queue receive orders --group billing --format json | jq -r '.[].receipt' |
        headwater queue ack --group billing -
    """
    return _settle(receipts, group, format, bootstrap, lambda consumer, chosen: consumer.ack(*chosen))


@click.command()
@receipts_argument
@group_option
@click.option(
    "--delay",
    "delay_ms",
    type=Duration(),
    help="How long the records wait, such as 30s.  [default: the group's headwater.share.retry.backoff.ms]",
)
@format_option
@bootstrap_option
def nack(receipts: tuple[str, ...], group: str, delay_ms: int | None, format: str, bootstrap: str) -> int:
    """Give received records back, for another delivery, at once or after a while.

    A record that was delivered as often as the group allows (share.delivery.count.limit) leaves the queue instead. `-`
    reads receipts from standard input, one a line.

    \b
    Examples:
      headwater queue nack --group billing RECEIPT
      headwater queue nack --group billing RECEIPT --delay 30s
    """
    return _settle(
        receipts, group, format, bootstrap, lambda consumer, chosen: consumer.nack(*chosen, delay_ms=delay_ms)
    )


@click.command()
@receipts_argument
@group_option
@format_option
@bootstrap_option
def reject(receipts: tuple[str, ...], group: str, format: str, bootstrap: str) -> int:
    """Say that received records are hopeless: they leave the queue without another delivery.

    `-` reads receipts from standard input, one a line.

    \b
    Examples:
      headwater queue reject --group billing RECEIPT
    """
    return _settle(receipts, group, format, bootstrap, lambda consumer, chosen: consumer.reject(*chosen))


@click.command()
@receipts_argument
@group_option
@click.option(
    "--lock",
    "lock_ms",
    type=Duration(),
    help="For how long from now on, such as 1m.  [default: the group's share.record.lock.duration.ms]",
)
@format_option
@bootstrap_option
def extend(receipts: tuple[str, ...], group: str, lock_ms: int | None, format: str, bootstrap: str) -> int:
    """Hold received records for longer, because the work takes its time.

    `-` reads receipts from standard input, one a line.

    \b
    Examples:
      headwater queue extend --group billing RECEIPT --lock 1m
    """
    return _settle(
        receipts, group, format, bootstrap, lambda consumer, chosen: consumer.extend(*chosen, lock_duration_ms=lock_ms)
    )


def _settle(
    receipts: Sequence[str],
    group: str,
    format: str,
    bootstrap: str,
    settle: "Callable[[QueueConsumer, Sequence[str]], None]",
) -> int:
    """Show the outcome of each receipt. The exit code is 1 if one was refused."""
    from headwater.client.errors import Refused
    from headwater.client.groups.queue_consumer import NotSettled, QueueConsumer

    chosen = _given(receipts)
    refusals: dict[str, Refused] = {}
    with connect(bootstrap) as cluster:
        try:
            settle(QueueConsumer(cluster, group, ()), chosen)
        except NotSettled as error:
            refusals.update(error.refusals)
    rows = [
        {"receipt": each, "settled": each not in refusals, "reason": str(refusals[each]) if each in refusals else None}
        for each in chosen
    ]
    show(rows, format, ("receipt", "settled", "reason") if refusals else ("receipt", "settled"))
    return 1 if refusals else 0


def _given(receipts: Sequence[str]) -> list[str]:
    if STANDARD_INPUT not in receipts:
        return list(dict.fromkeys(receipts))
    if len(receipts) > 1:
        raise click.UsageError("'-' stands alone: it reads all receipts from standard input")
    return list(dict.fromkeys(sys.stdin.read().split()))
