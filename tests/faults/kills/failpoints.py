"""Failpoints at which a broker can be made to kill itself: each is an operation on files with certain names."""

from fnmatch import fnmatch
from typing import NamedTuple

from tests.faults.kills.passages import Moment, Operation, Passage


class Failpoint(NamedTuple):
    operation: Operation
    moment: Moment
    # A shell pattern for directory and file name.
    pattern: str
    # About how often a broker under load reaches the point in a second. It dies at one of these times.
    passages_max: int

    def is_at(self, passage: Passage) -> bool:
        name = f"{passage.path.parent.name}/{passage.path.name}"
        return passage[:2] == self[:2] and fnmatch(name, self.pattern)


# The activity of the broker at each failpoint.
FAILPOINTS_BY_WORK = {
    "acknowledging records": {
        "mid-write": Failpoint("write", "amid", "numbers-*/*.log", 40),
        "after-write": Failpoint("write", "after", "numbers-*/*.log", 40),
        "before-fsync": Failpoint("sync", "before", "numbers-*/*.log", 40),
        "before-ack": Failpoint("sync", "after", "numbers-*/*.log", 40),
    },
    "beginning a segment": {
        "mid-roll": Failpoint("create", "after", "*/*.log", 6),
        "mid-snapshot": Failpoint("write", "amid", "*/*.snapshot", 6),
        "mid-index": Failpoint("write", "amid", "*/*.index", 6),
        "mid-time-index": Failpoint("write", "amid", "*/*.timeindex", 6),
        "mid-transaction-index": Failpoint("write", "amid", "*/*.txnindex", 2),
    },
    # The cleaner: its work, the deciding step, the swap of files, the end.
    "compacting": {
        "mid-compaction": Failpoint("write", "amid", "compacted-*/*.log.cleaned", 2),
        "before-swap": Failpoint("rename", "before", "compacted-*/*.log.swap", 2),
        "mid-swap": Failpoint("rename", "after", "compacted-*/*.log.deleted", 3),
        "before-swap-ends": Failpoint("rename", "before", "compacted-*/*.log", 2),
    },
    "deciding on transactions": {
        "mid-decision": Failpoint("write", "amid", "__transaction_state-*/*.log", 12),
        "after-decision": Failpoint("write", "after", "__transaction_state-*/*.log", 12),
    },
    # One marker for each partition of the transaction.
    "writing markers": {
        "before-marker": Failpoint("mark", "before", "*/*.log", 6),
        "mid-marker": Failpoint("mark", "amid", "*/*.log", 6),
        "between-markers": Failpoint("mark", "after", "*/*.log", 6),
    },
    "committing offsets": {
        "mid-commit": Failpoint("write", "amid", "__consumer_offsets-*/*.log", 12),
        "after-commit": Failpoint("write", "after", "__consumer_offsets-*/*.log", 12),
    },
    "deleting records": {
        "mid-retention": Failpoint("rename", "after", "trimmed-*/*.deleted", 6),
        "mid-removal": Failpoint("remove", "before", "trimmed-*/*.deleted", 6),
    },
    "writing checkpoints": {
        "mid-checkpoint": Failpoint("write", "amid", "*/recovery-point-offset-checkpoint.tmp", 3),
        "before-checkpoint": Failpoint("rename", "before", "*/log-start-offset-checkpoint", 3),
    },
    "creating and deleting topics": {
        "mid-catalog": Failpoint("write", "amid", "__headwater_catalog-0/*.log", 4),
        "after-catalog": Failpoint("write", "after", "__headwater_catalog-0/*.log", 4),
        "mid-creation": Failpoint("write", "amid", "brief-*/partition.metadata*", 2),
        "mid-deletion": Failpoint("rename", "after", "*/brief-*-delete", 2),
    },
    "recovering from a kill": {
        "mid-recovery": Failpoint("sync", "before", "*/*.log", 3),
        "mid-epoch": Failpoint("write", "amid", "*/leader-epoch-checkpoint*", 4),
    },
}
FAILPOINTS = {name: one for failpoints in FAILPOINTS_BY_WORK.values() for name, one in failpoints.items()}
