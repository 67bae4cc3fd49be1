"""`headwater consume --group`: prints the records of the partitions that a group assigns to this member.

Law: only records that were printed and flushed are committed, and the member always leaves the group when it ends.
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
    """Consume as a member of the group. Unless `ends` is None, stop when the assigned partitions are read up to it."""
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
                # Commit the positions: they lie also past control batches, and in partitions without records.
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
    """Print records and mark them as processed. If the pipe is closed, this raises, and they do not count as
    processed."""
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
    """Whether all assigned partitions are read up to `ends`: not while none is assigned yet. A partition that was added
    after `ends` was looked up is ignored."""
    return bool(positions) and all(position >= ends.get(partition, 0) for partition, position in positions.items())
