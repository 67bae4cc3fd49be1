"""The settings that decide about share-partitions."""

from typing import NamedTuple, Self


class ShareLimits(NamedTuple):
    # How long a member may hold a record (share.record.lock.duration.ms).
    lock_duration_ms: int = 30_000
    # How often a record is delivered at most (share.delivery.count.limit).
    delivery_count_max: int = 5
    # How many records of a share-partition may be unfinished (share.partition.max.record.locks).
    locks_max: int = 2000
    # After how many updates the whole state is written (share.coordinator.snapshot.update.records.per.snapshot).
    updates_per_snapshot: int = 500
    # How long a record that was given back waits for its second delivery; each further wait is so many times longer, up
    # to a maximum (headwater.share.retry.backoff.*). 0: not at all.
    backoff_ms: int = 0
    backoff_factor: float = 2.0
    backoff_max_ms: int = 60_000
    # Whether records that the group gives up are copied to a dead-letter topic, and those too that expired.
    has_dead_letters: bool = False
    has_expired_dead_letters: bool = False

    def for_once(self, duration_ms: int) -> Self:
        """The limits for a client that says itself how long it holds a record, or how long a released one waits."""
        return self._replace(
            lock_duration_ms=duration_ms, backoff_ms=duration_ms, backoff_factor=1.0, backoff_max_ms=duration_ms
        )

    def backoff_after(self, delivery_count: int) -> int:
        # The exponent is bounded, because a float is: 25 deliveries are the most that may be set.
        return min(int(self.backoff_ms * self.backoff_factor ** min(delivery_count - 1, 100)), self.backoff_max_ms)
