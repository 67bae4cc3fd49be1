"""`headwater queue`: topics that share groups read as queues. Its commands are in `subcommands/queue_*.py`."""

import click

from headwater.cli.lazy_group import LazyCommand, LazyGroup

COMMANDS = {
    "dead-letters": LazyCommand(
        "headwater.cli.subcommands.queue_dead_letters", "List, show, put back and purge records that groups gave up."
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def queue() -> None:
    """Work with topics as queues.

    A queue is a topic that a share group reads: its members are given records one by one, and say of each what becomes
    of it.
    """
