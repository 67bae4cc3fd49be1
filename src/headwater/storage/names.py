"""Names of partitions' directories and of the files in them: Kafka's own, so that Kafka's tools read them."""

import re
from typing import Final
from uuid import uuid4

from headwater.ids import TopicName, TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
LANE_INDEX: Final = ".lanes"
INDEXES: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, LANE_INDEX)
SEGMENT_FILES: Final = (LOG, *INDEXES)

# A file with one of these suffixes is in transition: removed from the log, written by compaction, about to replace the
# segments that it was compacted from, or about to replace a file of the same name.
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
TEMPORARY: Final = ".tmp"

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"

# A directory with one of these endings is no partition: it is being deleted, or set aside for a person to look at.
DIRECTORY_DELETED: Final = "-delete"
DIRECTORY_STRAY: Final = "-stray"
_NAME_BYTES_MAX: Final = 255
_PARTITION: Final = re.compile(r"([A-Za-z0-9._-]+)-(0|[1-9][0-9]{0,9})")
_DELETED: Final = re.compile(r".+\.[0-9a-f]{32}-delete")


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose directory has this name."""
    match = _PARTITION.fullmatch(name)
    return None if match is None else TopicPartition(TopicName(match[1]), int(match[2]))


def directory_aside(name: str, ending: str) -> str:
    """A unique name that begins with `name`, which is cut short where file systems would refuse the length."""
    unique = f".{uuid4().hex}{ending}"
    return name[: _NAME_BYTES_MAX - len(unique)] + unique


def is_directory_deleted(name: str) -> bool:
    return _DELETED.fullmatch(name) is not None


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in `name`, if it is the name of a file of that kind."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)
