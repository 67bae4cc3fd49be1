"""What a log consists of when it is created or opened."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater.config.topic import TopicConfig
from headwater.storage.disk import Disk
from headwater.storage.epochs import LeaderEpochs
from headwater.storage.producers.snapshot_files import SnapshotFiles
from headwater.storage.producers.states import ProducerStates
from headwater.storage.segment import Segment


@dataclass(slots=True, eq=False)
class LogContents:
    """The parts of a log, as recovery finds them."""

    segments: list[Segment]
    snapshots: SnapshotFiles
    start_offset: int = 0
    end_offset: int = 0
    flushed_offset: int = 0
    producers: ProducerStates = field(default_factory=ProducerStates)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    first_dirty_offset: int = 0
    is_recovered: bool = False
    verified_bytes: int = 0
    # Directories in which names may not be on disk yet.
    directories_unsynced: Sequence[Path] = ()


def new_segment(
    disk: Disk, directory: Path, base_offset: int, config: TopicConfig, *, now_ms: int, report: Callable[[str], None]
) -> Segment:
    return Segment(
        disk,
        directory,
        base_offset,
        is_new=True,
        now_ms=now_ms,
        interval_bytes=config.index_interval_bytes,
        report=report,
    )
