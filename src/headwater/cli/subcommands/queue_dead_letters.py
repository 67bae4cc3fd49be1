"""`headwater queue dead-letters`: records that share groups gave up."""

import click


@click.group("dead-letters")
def dead_letters() -> None:
    """List, show, put back and purge dead letters.

    A dead letter is a record that the members of a share group rejected, or failed to process too often. The broker has
    copied it to the dead-letter topic of the group, with headers that say where it comes from and why.
    """
