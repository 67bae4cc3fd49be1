"""`headwater queue dead-letters`: records that share groups gave up. Its commands are in the two modules that it
imports."""

import click

from headwater.cli.subcommands.queue_letters import list_letters, show_letters
from headwater.cli.subcommands.queue_redrive import purge, redrive


@click.group("dead-letters")
def dead_letters() -> None:
    """List, show, put back and purge dead letters.

    A dead letter is a record that the members of a share group rejected, or failed to process too often. The broker has
    copied it to the dead-letter topic of the group, with headers that say where it comes from and why. There it goes by
    its PLACE, such as 0-17: a partition and an offset.

    \b
    Examples:
      headwater queue dead-letters list
      headwater queue dead-letters list orders.dlq --reason exhausted
      headwater queue dead-letters redrive orders.dlq --all --dry-run
    """


for command in (list_letters, show_letters, redrive, purge):
    dead_letters.add_command(command)
