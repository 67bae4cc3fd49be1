"""`headwater queue`: topics that share groups read as queues. Its commands are in `subcommands/queue_*.py`."""

import click

from headwater.cli.lazy_group import LazyCommand, LazyGroup

_RECEIVE = "headwater.cli.subcommands.queue_receive"
_SETTLE = "headwater.cli.subcommands.queue_settle"

COMMANDS = {
    "receive": LazyCommand(_RECEIVE, "Take records from a queue, each with a receipt."),
    "ack": LazyCommand(_SETTLE, "Say that received records are done with."),
    "nack": LazyCommand(_SETTLE, "Give received records back, for another delivery."),
    "reject": LazyCommand(_SETTLE, "Say that received records are hopeless."),
    "extend": LazyCommand(_SETTLE, "Hold received records for longer."),
    "peek": LazyCommand(_RECEIVE, "Show the next records of a queue, and take none."),
    "stats": LazyCommand(_RECEIVE, "Show how far a group is with a queue."),
    "dead-letters": LazyCommand(
        "headwater.cli.subcommands.queue_dead_letters", "List, show, put back and purge records that groups gave up."
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def queue() -> None:
    """Work with topics as queues.

    A queue is a topic that a share group reads: clients are given records one by one, and say of each what becomes of
    it. What `receive` gives is held for its client for a while, and comes back unless it is settled by then, by its
    receipt: with `ack`, `nack` or `reject`. `extend` gains time.

    \b
    Examples:
      headwater queue receive orders --group billing --max 10 --wait 5s
      headwater queue ack --group billing RECEIPT
      headwater queue nack --group billing RECEIPT --delay 30s
    """
