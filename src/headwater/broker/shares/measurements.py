"""The metrics of share groups."""

from collections import defaultdict
from collections.abc import Callable

from headwater.coordination.shares.commands import Acknowledged
from headwater.coordination.shares.lane_schedule import LANES
from headwater.coordination.shares.terms import SharePartitionId
from headwater.metrics import Counter, Metrics, Sample


class Tally:
    """What became of the records of one share-partition since the broker started."""

    __slots__ = ("accepted", "archived", "deliveries")

    def __init__(self) -> None:
        self.deliveries = 0
        self.accepted = 0
        # Rejected, or delivered too often.
        self.archived = 0


class ShareMeasurements:
    """How often records were delivered, and what became of them."""

    __slots__ = (
        "_tallies",
        "accepted",
        "boosts",
        "delivered",
        "exhausted",
        "expired",
        "lanes",
        "letters",
        "letters_dropped",
        "letters_failed",
        "outlived",
        "rejected",
        "released",
        "renewed",
    )

    def __init__(self) -> None:
        self.delivered = Counter()
        self.accepted = Counter()
        self.released = Counter()
        self.rejected = Counter()
        self.renewed = Counter()
        self.expired = Counter()
        self.exhausted = Counter()
        # Records whose time to live was over.
        self.outlived = Counter()
        # Deliveries of topics with priorities by lane, and those to lanes that had waited for too long.
        self.lanes = [0 for _ in LANES]
        self.boosts = Counter()
        # Dead letters, by group and reason.
        self.letters: dict[tuple[str, str], int] = {}
        self.letters_failed = Counter()
        self.letters_dropped = Counter()
        self._tallies: defaultdict[SharePartitionId, Tally] = defaultdict(Tally)

    def count_letters(self, group: str, reason: str, count: int) -> None:
        self.letters[group, reason] = self.letters.get((group, reason), 0) + count

    def tally(self, share_id: SharePartitionId) -> Tally:
        return self._tallies.get(share_id) or Tally()

    def forget(self, concerns: Callable[[SharePartitionId], bool]) -> None:
        for share_id in [each for each in self._tallies if concerns(each)]:
            del self._tallies[share_id]

    def count_delivered(self, share_id: SharePartitionId, count: int) -> None:
        self.delivered.value += count
        self._tallies[share_id].deliveries += count

    def count_expired(self, share_id: SharePartitionId, expired: int, exhausted: int) -> None:
        self.expired.value += expired
        self.exhausted.value += exhausted
        self._tallies[share_id].archived += exhausted

    def count(self, share_id: SharePartitionId, acknowledged: Acknowledged) -> None:
        tally = self._tallies[share_id]
        tally.accepted += acknowledged.accepted
        tally.archived += acknowledged.rejected + acknowledged.exhausted
        self.accepted.value += acknowledged.accepted
        self.released.value += acknowledged.released
        self.rejected.value += acknowledged.rejected
        self.renewed.value += acknowledged.renewed
        self.exhausted.value += acknowledged.exhausted

    def declare(self, metrics: Metrics) -> None:
        metrics.declare(
            "headwater_share_deliveries_total",
            "counter",
            "Deliveries of records to members of share groups.",
            lambda: [Sample((), self.delivered.value)],
        )
        types = ("accepted", "released", "rejected", "renewed")
        metrics.declare(
            "headwater_share_acknowledgements_total",
            "counter",
            "Records that members of share groups acknowledged, by what they said of them.",
            lambda: [Sample((("type", each),), getattr(self, each).value) for each in types],
        )
        metrics.declare(
            "headwater_share_locks_expired_total",
            "counter",
            "Records whose member did not acknowledge them in time (share.record.lock.duration.ms).",
            lambda: [Sample((), self.expired.value)],
        )
        metrics.declare(
            "headwater_share_exhausted_total",
            "counter",
            "Records that left the queue because they were delivered too often (share.delivery.count.limit).",
            lambda: [Sample((), self.exhausted.value)],
        )
        metrics.declare(
            "headwater_share_records_expired_total",
            "counter",
            "Records that left the queue because their time to live was over (headwater.ttl.ms, headwater-ttl-ms).",
            lambda: [Sample((), self.outlived.value)],
        )
        metrics.declare(
            "headwater_share_lane_deliveries_total",
            "counter",
            "Deliveries of records in topics with priorities, by the record's lane: 0 (critical) to 4 (background).",
            lambda: [Sample((("lane", str(lane)),), count) for lane, count in enumerate(self.lanes)],
        )
        metrics.declare(
            "headwater_share_lane_boosts_total",
            "counter",
            "Deliveries of records out of turn, because their lane had waited (headwater.share.priority.boost.ms).",
            lambda: [Sample((), self.boosts.value)],
        )
        metrics.declare(
            "headwater_share_dead_letters_total",
            "counter",
            "Dead letters that were written, by share group and reason.",
            lambda: [
                Sample((("group", group), ("reason", reason)), count) for (group, reason), count in self.letters.items()
            ],
        )
        metrics.declare(
            "headwater_share_dead_letter_failures_total",
            "counter",
            "Attempts to write dead letters that failed; the log says why.",
            lambda: [Sample((), self.letters_failed.value)],
        )
        metrics.declare(
            "headwater_share_dead_letters_dropped_total",
            "counter",
            "Dead letters of topics that were to be their own dead-letter topics.",
            lambda: [Sample((), self.letters_dropped.value)],
        )
