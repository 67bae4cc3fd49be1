"""Names of the files in a partition's directory: Kafka's own, so that Kafka's tools read them."""

from typing import Final

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_FILES: Final = (LOG, OFFSET_INDEX, TIME_INDEX)

# A file with one of these suffixes is on its way: out of the log, being compacted, or about to replace what it was
# compacted from.
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
TEMPORARY: Final = ".tmp"

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset that `name` carries if it is a file of that kind."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)
