"""`headwater consume --group`: prints what a group gives to this member.

Law: only what was printed and flushed is committed, and the group is left in order, however the end comes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import click

from headwater.cli.interruption import Interruption
from headwater.cli.pipe import check_reader
from headwater.client.groups.group_consumer import GroupConsumer
from headwater.client.offsets import EARLIEST, LATEST
from headwater.ids import TopicName, TopicPartition

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster
    from headwater.client.consumer import ConsumedRecord


def consume_in_group(
    cluster: "Cluster",
    group: str,
    topics: Sequence[str],
    write: "Callable[[ConsumedRecord], None]",
    stream: BinaryIO,
    *,
    ends: Mapping[TopicPartition, int] | None,
    from_end: bool,
    count_max: int | None,
    committed: bool,
) -> None:
    """Up to `ends`, if there are any, in the partitions that the group gives."""
    reset = LATEST if from_end else EARLIEST
    was_waiting = False
    printed = 0
    with (
        Interruption() as interruption,
        GroupConsumer(cluster, group, reset=reset, committed_only=committed) as consumer,
    ):
        consumer.subscribe(topics)
        while count_max is None or printed < count_max:
            records = consumer.poll()[: None if count_max is None else count_max - printed]
            if not consumer.positions and not was_waiting:
                click.echo(f"note: waiting for partitions, other members of group {group!r} have them", err=True)
                was_waiting = True
            _print(records, write, stream, consumer.processed, interruption)
            printed += len(records)
            if printed != count_max and ends is not None and _is_at(ends, consumer.positions):
                # Also past what is no record, and where there was none.
                consumer.commit()
                return
            check_reader(stream)


def _print(
    records: "Sequence[ConsumedRecord]",
    write: "Callable[[ConsumedRecord], None]",
    stream: BinaryIO,
    processed: dict[TopicPartition, int],
    interruption: Interruption,
) -> None:
    """What a closed pipe did not take raises, and does not count as processed."""
    written: dict[TopicPartition, int] = {}
    with interruption.deferred():
        for record in records:
            if interruption.is_requested:
                break
            write(record)
            written[TopicPartition(TopicName(record.topic), record.partition)] = record.offset + 1
        stream.flush()
        processed.update(written)


def _is_at(ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]) -> bool:
    """A member that has no partitions yet has not read to their ends; one that is newer than `ends` does not count."""
    return bool(positions) and all(position >= ends.get(partition, 0) for partition, position in positions.items())
