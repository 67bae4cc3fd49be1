"""The directory with all data of one broker: its owner, its partitions, and where recovery begins.

One process at a time may use it. The mark of a clean stop is removed before anything is written, and put back last.
"""

import base64
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from headwater.config.topic import TopicConfig
from headwater.errors import HeadwaterError
from headwater.ids import TopicId, TopicPartition
from headwater.storage import checkpoints, names
from headwater.storage.checkpoints import META_PROPERTIES, RECOVERY_POINTS, START_OFFSETS, DamagedCheckpoint
from headwater.storage.disk import Disk
from headwater.storage.log import Log
from headwater.storage.log_factory import create_log, offline_log, open_log

logger = logging.getLogger(__name__)

T = TypeVar("T")

THREADS_MAX = 16


class DataDirectoryInUse(HeadwaterError):
    """Another process has locked it."""


class WrongNode(HeadwaterError):
    """The directory belongs to a broker with another node id."""


class DataDirectory:
    def __init__(self, root: Path, node_id: int, disk: Disk | None = None) -> None:
        self.root = root
        self._disk = disk or Disk()
        self._disk.make_directory(root)
        try:
            self._lock = self._disk.lock_directory(root)
        except BlockingIOError:
            raise DataDirectoryInUse(
                f"{root} is in use by another process: stop it, or choose another directory with --data-dir"
            ) from None
        try:
            owner = self._read_owner(node_id)
            self._is_claimed = owner is not None
            self._owner = _new_owner(node_id) if owner is None else owner
            self.is_new = owner is None and not any(self.partitions_found())
            rotten = checkpoints.take_clean_mark(self._disk, root)
            self.is_clean = rotten is not None
            # The contents of the two files.
            self._recovery_points: Mapping[TopicPartition, int] = self._read_offsets(RECOVERY_POINTS, rotten)
            self._start_offsets: Mapping[TopicPartition, int] = self._read_offsets(START_OFFSETS, rotten)
            self._remove_leftovers()
        except BaseException:
            self._lock.close()
            raise

    def _read_owner(self, node_id: int) -> dict[str, str] | None:
        properties = checkpoints.read_properties(self._disk, self.root / META_PROPERTIES)
        if properties is not None and properties.get("node.id") != str(node_id):
            raise WrongNode(
                f"{self.root} belongs to broker {properties.get('node.id') or 'of no known number'}, this is broker "
                f"{node_id}: set node.id accordingly, or choose another directory with --data-dir"
            )
        return properties

    @property
    def cluster_id(self) -> str:
        return self._owner.get("cluster.id", "")

    def claim(self) -> None:
        """Records the owner, as the last step of a first start: from then on a missing file is a lost file."""
        if not self._is_claimed:
            checkpoints.write_properties(self._disk, self.root / META_PROPERTIES, self._owner)
            self._is_claimed = True

    def _read_offsets(self, name: str, rotten: Collection[str] | None) -> dict[TopicPartition, int]:
        try:
            if rotten and name in rotten:
                raise DamagedCheckpoint(f"{name} is not what was written")
            return checkpoints.read_offsets(self._disk, self.root / name)
        except DamagedCheckpoint as error:
            # The broker can do without: it scans more, and records before a lost start offset may come back.
            logger.error("%s: every log is verified from its beginning", error)
            self.is_clean = False
            return {}

    def _remove_leftovers(self) -> None:
        for name in self._disk.list(self.root):
            if names.is_directory_deleted(name) and self._disk.is_directory(self.root / name):
                try:
                    self._disk.remove_tree(self.root / name)
                except OSError as error:
                    logger.error("what is left of a deleted topic cannot be removed: %s", error)

    # -- partitions

    def partitions_found(self) -> Iterable[TopicPartition]:
        return partitions_in(self._disk, self.root)

    def create_partitions(
        self, identities: Sequence[TopicPartition], config: TopicConfig, topic_id: TopicId, now_ms: int
    ) -> list[Log]:
        """Durable when it returns, so that the catalog may name these partitions. An OSError leaves none of them."""
        self._forget_offsets(identities)
        logs: list[Log] = []
        made: list[Path] = []
        try:
            for identity in identities:
                directory = self._directory(identity)
                if self._disk.exists(directory):
                    logger.warning("%s was there before its topic: kept as %s", identity, self.set_aside(identity).name)
                made.append(directory)
                logs.append(create_log(self._disk, directory, config, topic_id=topic_id, now_ms=now_ms))
            _for_each(logs, Log.sync_creation)
            self._disk.sync_directory(self.root)
        except OSError:
            for directory in made:
                with suppress(OSError):
                    self._disk.remove_tree(directory)
            raise
        return logs

    def open_partition(
        self, identity: TopicPartition, config: TopicConfig, now_ms: int, *, is_deletable: bool = True
    ) -> Log:
        """A log that cannot be opened is offline, and the others are not: a new one in its place would look like
        success, and lose what a person may still restore. A log whose records nobody may delete (`is_deletable` is
        false) starts where its files do, even if a rotten checkpoint names another start offset."""
        directory = self._directory(identity)
        recovery_point = self.recovery_point(identity)
        start_offset = self._start_offsets.get(identity, 0) if is_deletable else 0
        if not self._disk.exists(directory):
            reason = f"its directory {identity} is missing"
        else:
            try:
                return open_log(
                    self._disk,
                    directory,
                    config,
                    clean=self.is_clean and identity in self._recovery_points,
                    recovery_point=recovery_point,
                    start_offset=start_offset,
                    now_ms=now_ms,
                    report=lambda line: logger.warning("%s: %s", identity, line),
                )
            except (OSError, HeadwaterError) as error:
                reason = f"it cannot be opened: {error}"
        logger.error("%s is offline, restore it and restart, or delete its topic: %s", identity, reason)
        return offline_log(
            self._disk, directory, config, start_offset=start_offset, flushed_offset=recovery_point, reason=reason
        )

    def recovery_point(self, identity: TopicPartition) -> int:
        """Everything before this offset was on disk when the checkpoint was written."""
        return self._recovery_points.get(identity, 0)

    def set_aside(self, identity: TopicPartition) -> Path:
        """Moves data of a topic that the catalog does not know out of the way. It is never deleted."""
        directory = self._directory(identity)
        target = directory.with_name(names.directory_aside(directory.name, names.DIRECTORY_STRAY))
        self._disk.rename(directory, target)
        self._disk.sync_directory(self.root)
        return target

    def _directory(self, identity: TopicPartition) -> Path:
        return self.root / str(identity)

    # -- checkpoints

    def write_recovery_points(self, points: Mapping[TopicPartition, int]) -> None:
        checkpoints.write_offsets(self._disk, self.root / RECOVERY_POINTS, points)
        self._recovery_points = points

    def write_start_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        # Most logs start at 0: an entry that is left out cannot rot.
        moved = {identity: offset for identity, offset in offsets.items() if offset > 0}
        checkpoints.write_offsets(self._disk, self.root / START_OFFSETS, moved)
        self._start_offsets = moved

    def _forget_offsets(self, identities: Collection[TopicPartition]) -> None:
        """The files know partitions by name: offsets of a deleted topic would be taken for those of its namesake."""
        gone = set(identities)
        if not gone.isdisjoint(self._recovery_points):
            self.write_recovery_points({one: at for one, at in self._recovery_points.items() if one not in gone})
        if not gone.isdisjoint(self._start_offsets):
            self.write_start_offsets({one: at for one, at in self._start_offsets.items() if one not in gone})

    def close(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Closes every log. The next start skips recovery only if all of them could be closed."""
        failed = [identity for identity, log in logs.items() if log.failure is not None]

        def close(item: tuple[TopicPartition, Log]) -> None:
            identity, log = item
            try:
                log.close()
            except HeadwaterError as error:
                logger.error("%s could not be closed and is verified at the next start: %s", identity, error)
                failed.append(identity)

        _for_each([item for item in logs.items() if item[1].failure is None], close)
        self.write_recovery_points({identity: log.recovery_point for identity, log in logs.items()})
        self.write_start_offsets({identity: log.start_offset for identity, log in logs.items()})
        if not failed:
            checkpoints.mark_clean(self._disk, self.root)
        self.release()

    def release(self) -> None:
        self._lock.close()

    def volume_bytes(self) -> tuple[int, int]:
        """The size of the file system, and how many bytes can still be written to it."""
        return self._disk.volume_bytes(self.root)


def owner_of(root: Path) -> str | None:
    """The node id of the broker that a directory belongs to; None if it belongs to none yet."""
    properties = checkpoints.read_properties(Disk(), root / META_PROPERTIES)
    return None if properties is None else properties.get("node.id")


def partitions_in(disk: Disk, root: Path) -> Iterable[TopicPartition]:
    """Directories of partitions, told by their names and their `partition.metadata`. Others are left alone."""
    for name in sorted(disk.list(root)):
        identity = names.partition_of(name)
        if (
            identity is not None
            and disk.is_directory(root / name)
            and disk.exists(root / name / names.PARTITION_METADATA)
        ):
            yield identity


def _for_each(items: Sequence[T], work: Callable[[T], None]) -> None:
    """In threads where there are several items: a disk serves many requests at once in about the time of one."""
    if len(items) <= 1:
        for item in items:
            work(item)
        return
    # Imported here because many starts and stops do without it, and their time counts.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(THREADS_MAX) as threads:
        for _ in threads.map(work, items):
            pass


def _new_owner(node_id: int) -> dict[str, str]:
    return {"version": "1", "cluster.id": _unique(), "node.id": str(node_id), "directory.id": _unique()}


def _unique() -> str:
    return base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
