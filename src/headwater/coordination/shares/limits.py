"""The settings that decide about share-partitions."""

from typing import NamedTuple


class ShareLimits(NamedTuple):
    # How long a member may hold a record (share.record.lock.duration.ms).
    lock_duration_ms: int = 30_000
    # How often a record is delivered at most (share.delivery.count.limit).
    delivery_count_max: int = 5
    # How many records of a share-partition may be unfinished (share.partition.max.record.locks).
    locks_max: int = 2000
    # After how many updates the whole state is written (share.coordinator.snapshot.update.records.per.snapshot).
    updates_per_snapshot: int = 500
