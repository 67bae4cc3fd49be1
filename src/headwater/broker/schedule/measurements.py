"""The metrics of schedules."""

from headwater.metrics import Counter, Histogram, Metrics, Sample

MILLISECOND = 1e-3


class ScheduleMeasurements:
    """What became of scheduled records, and how late they were."""

    __slots__ = ("attempts_failed", "cancelled", "delivered", "lateness_ms", "moved", "scheduled", "unreadable")

    def __init__(self) -> None:
        self.scheduled = Counter()
        self.delivered = Counter()
        self.cancelled = Counter()
        self.moved = Counter()
        self.unreadable = Counter()
        self.attempts_failed = Counter()
        self.lateness_ms = Histogram(MILLISECOND)

    def declare(self, metrics: Metrics) -> None:
        for name, counter, text in (
            ("headwater_schedule_scheduled_total", self.scheduled, "Records that were scheduled."),
            ("headwater_schedule_delivered_total", self.delivered, "Scheduled records that were delivered."),
            ("headwater_schedule_cancelled_total", self.cancelled, "Scheduled records that were cancelled."),
            ("headwater_schedule_moved_total", self.moved, "Scheduled records that got another time."),
            (
                "headwater_schedule_unreadable_total",
                self.unreadable,
                "Scheduled records that were lost because the schedule's log is damaged where they lie.",
            ),
            (
                "headwater_schedule_attempts_failed_total",
                self.attempts_failed,
                "Attempts to deliver that failed and were repeated.",
            ),
        ):
            metrics.declare(name, "counter", text, lambda counter=counter: [Sample((), counter.value)])
        metrics.declare(
            "headwater_schedule_lateness_seconds",
            "histogram",
            "From the time for which a record was scheduled to the time at which consumers could read it.",
            lambda: self.lateness_ms.samples(()),
        )
