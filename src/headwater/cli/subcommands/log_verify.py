"""`headwater log verify`: checks all files of a stopped broker, and with --repair truncates damaged logs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.cli.output import format_option, show

if TYPE_CHECKING:
    from headwater.ids import TopicPartition
    from headwater.storage.disk import Disk
    from headwater.storage.inspection.damage import Damage

COLUMNS = ("file", "position", "offsets", "problem")


@click.command()
@click.argument("data_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="Only this topic; may be repeated.")
@click.option("--repair", is_flag=True, help="Cut damaged logs off where their damage begins.")
@format_option
def verify(data_dir: Path, topics: tuple[str, ...], repair: bool, format: str) -> int:
    """Read all files in DATA_DIR, of a broker that is stopped, and show what is damaged.

    Every batch is checked against its checksum and decoded, indexes are compared with the records, checkpoints and
    snapshots are read. Without --repair nothing is changed, and the exit code is 1 if anything is damaged. OFFSETS are
    those that cannot be read.

    --repair cuts a log off before its first damaged batch, so that what comes before can be used again: records behind
    the damage go with it, and are kept in a directory beside (NAME-stray). What is not a log needs no repair: the
    broker builds it anew.
    """
    from headwater.errors import ConfigError
    from headwater.storage.disk import Disk

    disk = Disk()
    try:
        lock = disk.lock_directory(data_dir)
    except BlockingIOError:
        raise ConfigError(f"{data_dir} is in use by a broker: stop it first, then verify again") from None
    try:
        found = [*_damages(disk, data_dir, topics)]
        show([_row(damage, data_dir) for damage in found], format, COLUMNS)
        if not found:
            click.echo("nothing is damaged", err=True)
            return 0
        if not repair:
            return 1
        _repair(disk, data_dir, found)
        return 0
    finally:
        lock.close()


def _damages(disk: "Disk", root: Path, topics: Sequence[str]) -> Iterator["Damage"]:
    from headwater.errors import ConfigError
    from headwater.storage.data_directory import partitions_in
    from headwater.storage.inspection.damage import verify_directory, verify_partition

    partitions = [*partitions_in(disk, root)]
    unknown = set(topics) - {partition.topic for partition in partitions}
    if unknown:
        raise ConfigError(f"--topic {min(unknown)}: there is no such topic in {root}")
    yield from verify_directory(disk, root)
    for partition in partitions:
        if not topics or partition.topic in topics:
            yield from verify_partition(disk, root, partition)


def _repair(disk: "Disk", root: Path, found: "Sequence[Damage]") -> None:
    from headwater.storage.inspection.repair import cut_at

    first: dict[TopicPartition, Damage] = {}
    for damage in found:
        if damage.is_of_records and damage.partition is not None:
            first.setdefault(damage.partition, damage)
    for damage in first.values():
        repair = cut_at(disk, root, damage)
        click.echo(
            f"{repair.partition} now ends before offset {repair.end_offset}; what was cut off is in "
            f"{repair.kept_in.name}, remove it when it is not needed",
            err=True,
        )
    if len(first) < len(found):
        click.echo("what is not a log is built anew when the broker starts", err=True)


def _row(damage: "Damage", root: Path) -> dict[str, object]:
    offsets = None
    if damage.first_offset is not None:
        last = "" if damage.next_offset is None else damage.next_offset - 1
        offsets = f"{damage.first_offset}-{last}"
    return {
        "file": str(damage.path.relative_to(root)),
        "position": damage.position,
        "offsets": offsets,
        "problem": damage.problem,
        "first_offset": damage.first_offset,
        "next_offset": damage.next_offset,
        "lost_records": damage.is_of_records,
    }
