"""Small text files that survive a restart, in Kafka's formats: offsets by partition, a partition's topic id, the mark
of a clean shutdown, and the owner of the data directory.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from zlib import crc32

from headwater.errors import HeadwaterError
from headwater.ids import TopicId, TopicName, TopicPartition
from headwater.storage.disk import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
META_PROPERTIES = "meta.properties"
_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_CHECKSUMS = "headwater.checksums"
_VERSION = "0"


class DamagedCheckpoint(HeadwaterError):
    """The file is not what was written. Its contents must be found in another way."""


def encode(lines: Sequence[str]) -> bytes:
    return "\n".join((_VERSION, str(len(lines)), *lines, "")).encode()


def decode(data: bytes, path: Path, fields: int) -> list[list[str]]:
    """The lines after version and count, each split into `fields` words."""
    try:
        version, count, *lines = data.decode().splitlines()
        rows = [line.rsplit(" ", fields - 1) for line in lines]
        is_whole = version == _VERSION and int(count) == len(rows) and all(len(row) == fields for row in rows)
    except ValueError:
        is_whole, rows = False, []
    if not is_whole:
        raise DamagedCheckpoint(f"{path.name} is not a whole checkpoint")
    return rows


def read_offsets(disk: Disk, path: Path) -> dict[TopicPartition, int]:
    """Empty if there is no such file yet."""
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        return {}
    try:
        return {
            TopicPartition(TopicName(topic), int(partition)): int(offset)
            for topic, partition, offset in decode(data, path, 3)
        }
    except ValueError:
        raise DamagedCheckpoint(f"{path.name} is not a whole checkpoint") from None


def write_offsets(disk: Disk, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    disk.replace_file(path, encode(lines))


def mark_clean(disk: Disk, root: Path) -> None:
    """Marks that everything below `root` was flushed and closed, so that the next start needs no recovery. That start
    trusts the offset checkpoints, which have no checksum in Kafka's format: the mark holds their checksums."""
    checksums = {name: _checksum(disk, root / name) for name in (RECOVERY_POINTS, START_OFFSETS)}
    disk.replace_file(root / _CLEAN_SHUTDOWN, json.dumps({"version": 0, _CHECKSUMS: checksums}).encode())


def take_clean_mark(disk: Disk, root: Path) -> Sequence[str] | None:
    """Removes the mark, durably, before anything else is written. Returns the names of the checkpoints that are not as
    the last shutdown left them; None if that was not clean."""
    path = root / _CLEAN_SHUTDOWN
    if not disk.exists(path):
        return None
    try:
        checksums: dict[str, int] = json.loads(disk.read_file(path)).get(_CHECKSUMS, {})
        rotten = [name for name, checksum in checksums.items() if _checksum(disk, root / name) != checksum]
    except (ValueError, AttributeError, OSError):
        rotten = None
    disk.remove(path)
    disk.sync_directory(root)
    return rotten


def _checksum(disk: Disk, path: Path) -> int:
    return crc32(disk.read_file(path)) if disk.exists(path) else 0


def partition_metadata(topic_id: TopicId) -> bytes:
    """The id as Kafka writes it: URL-safe base64 without its padding."""
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"version: 0\ntopic_id: {text}".encode()


def read_properties(disk: Disk, path: Path) -> dict[str, str] | None:
    """A Java properties file of plain `name=value` lines; None if there is none."""
    try:
        text = disk.read_file(path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise DamagedCheckpoint(f"{path.name} is not a properties file") from None
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def write_properties(disk: Disk, path: Path, properties: Mapping[str, str]) -> None:
    disk.replace_file(path, "".join(f"{name}={value}\n" for name, value in properties.items()).encode())
