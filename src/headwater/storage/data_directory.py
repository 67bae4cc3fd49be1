"""The directory that holds all of one broker's data: who owns it, which partitions are in it, where recovery begins.

One process at a time. The mark of a clean stop is taken away before anything is written and put back last.
"""

import base64
import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from headwater.errors import HeadwaterError
from headwater.ids import TopicId, TopicName, TopicPartition
from headwater.storage import checkpoints, names
from headwater.storage.checkpoints import META_PROPERTIES, RECOVERY_POINTS, START_OFFSETS, DamagedCheckpoint
from headwater.storage.disk import Disk
from headwater.storage.log import Log
from headwater.topic_config import TopicConfig

logger = logging.getLogger(__name__)

# Directories with these endings are not partitions: on their way out, or set aside for a person to look at.
DELETED = "-delete"
STRAY = "-stray"
MISSING = "-missing"


class DataDirectoryInUse(HeadwaterError):
    """Another process has it."""


class WrongNode(HeadwaterError):
    """The directory belongs to a broker of another number."""


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
            self.cluster_id = self._read_owner(node_id)
            self.is_clean = checkpoints.take_clean_mark(self._disk, root)
            self._recovery_points = self._read_offsets(RECOVERY_POINTS)
            self._start_offsets = self._read_offsets(START_OFFSETS)
            self._remove_leftovers()
        except BaseException:
            self._lock.close()
            raise

    def _read_owner(self, node_id: int) -> str:
        path = self.root / META_PROPERTIES
        properties = checkpoints.read_properties(self._disk, path)
        if properties is None:
            cluster_id = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
            directory_id = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
            owner = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": directory_id}
            checkpoints.write_properties(self._disk, path, owner)
            return cluster_id
        owner_id = properties.get("node.id", "")
        if owner_id != str(node_id):
            raise WrongNode(
                f"{self.root} belongs to broker {owner_id or 'of no known number'}, this is broker {node_id}: "
                "set node.id accordingly, or choose another directory with --data-dir"
            )
        return properties.get("cluster.id", "")

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self._disk, self.root / name)
        except DamagedCheckpoint as error:
            # Both are shortcuts: without them more is scanned, and records that were deleted may come back.
            logger.error("%s: every log is verified from its beginning", error)
            self.is_clean = False
            return {}

    def _remove_leftovers(self) -> None:
        for name in self._disk.list(self.root):
            if name.endswith((DELETED, MISSING)):
                self._disk.remove_tree(self.root / name)

    # -- partitions

    def partitions_found(self) -> Iterable[TopicPartition]:
        for name in sorted(self._disk.list(self.root)):
            topic, separator, index = name.rpartition("-")
            if (
                separator
                and topic
                and index.isdigit()
                and self._disk.exists(self.root / name / names.PARTITION_METADATA)
            ):
                yield TopicPartition(TopicName(topic), int(index))

    def has_partition(self, identity: TopicPartition) -> bool:
        return self._disk.exists(self._directory(identity))

    def create_partitions(
        self, identities: Sequence[TopicPartition], config: TopicConfig, topic_id: TopicId, now_ms: int
    ) -> list[Log]:
        """Durable when it returns: whoever knows of these partitions will find them."""
        logs: list[Log] = []
        for identity in identities:
            directory = self._directory(identity)
            if self._disk.exists(directory):
                logger.warning("%s was there before its topic: kept as %s", identity, self.set_aside(identity).name)
            logs.append(Log.create(self._disk, directory, config, topic_id=topic_id, now_ms=now_ms))
            self._disk.sync_file(directory / names.PARTITION_METADATA)
            self._disk.sync_directory(directory)
        self._disk.sync_directory(self.root)
        return logs

    def open_partition(self, identity: TopicPartition, config: TopicConfig, topic_id: TopicId, now_ms: int) -> Log:
        directory = self._directory(identity)
        if not self._disk.exists(directory):
            return self._missing(identity, config, topic_id, now_ms)
        return Log.open(
            self._disk,
            directory,
            config,
            clean=self.is_clean and identity in self._recovery_points,
            recovery_point=self._recovery_points.get(identity, 0),
            start_offset=self._start_offsets.get(identity, 0),
            now_ms=now_ms,
            report=lambda line: logger.warning("%s: %s", identity, line),
        )

    def _missing(self, identity: TopicPartition, config: TopicConfig, topic_id: TopicId, now_ms: int) -> Log:
        """An empty log in place of a lost one would look like success, so it stands in, out of service."""
        directory = self.root / f"{identity}.{uuid4().hex}{MISSING}"
        log = Log.create(self._disk, directory, config, topic_id=topic_id, now_ms=now_ms)
        reason = f"its directory {identity} is missing: restore it and restart, or delete the topic"
        logger.error("%s is offline: %s", identity, reason)
        log.fail(reason)
        return log

    def set_aside(self, identity: TopicPartition) -> Path:
        """Data that nobody claims is never deleted, only moved out of the way."""
        directory = self._directory(identity)
        target = directory.with_name(f"{directory.name}.{uuid4().hex}{STRAY}")
        self._disk.rename(directory, target)
        self._disk.sync_directory(self.root)
        return target

    def _directory(self, identity: TopicPartition) -> Path:
        return self.root / str(identity)

    # -- checkpoints

    def write_recovery_points(self, points: Mapping[TopicPartition, int]) -> None:
        checkpoints.write_offsets(self._disk, self.root / RECOVERY_POINTS, points)

    def write_start_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        checkpoints.write_offsets(self._disk, self.root / START_OFFSETS, offsets)

    def close(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Closes every log; only if all of them could be closed does the next start skip recovery."""
        is_clean = True
        for identity, log in logs.items():
            if log.failure is not None:
                is_clean = False
                continue
            try:
                log.close()
            except HeadwaterError as error:
                logger.error("%s could not be closed and is verified at the next start: %s", identity, error)
                is_clean = False
        self.write_recovery_points({identity: log.flushed_offset for identity, log in logs.items()})
        self.write_start_offsets({identity: log.start_offset for identity, log in logs.items()})
        if is_clean:
            checkpoints.mark_clean(self._disk, self.root)
        self.release()

    def release(self) -> None:
        self._lock.close()

    def volume_bytes(self) -> tuple[int, int]:
        """Size of the file system, and what of it can still be written."""
        usage = shutil.disk_usage(self.root)
        return usage.total, usage.free
