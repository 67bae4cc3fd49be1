"""Members of one share-partition against a plain model of every record, with crashes at any unconfirmed point.

The model knows each record by itself. It checks that the machine gives out just what is available (never what another
member holds, what is done with, or what was delivered too often), that a crash undoes nothing that was confirmed, and
that in the end every record is done with exactly once.
"""

from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.terms import AcknowledgeType
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, ProducerId
from tests.coordination.shares.driver import ACCEPT, GAP, LOCK_MS, ORDERS, REJECT, RELEASE, RENEW, Driver

BATCH = 5
BATCHES = 6
END = BATCH * BATCHES
LIMITS = ShareLimits(lock_duration_ms=LOCK_MS, delivery_count_max=2, locks_max=17, updates_per_snapshot=4)
MEMBERS = st.sampled_from([MemberId("ann"), MemberId("bob"), MemberId("cid")])
TYPES = st.sampled_from([ACCEPT, ACCEPT, RELEASE, REJECT, RENEW, GAP])
OFFSETS = st.integers(0, END - 1)

# No shrinking: that a bug is found is enough.
SEARCH = settings(
    max_examples=400,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    report_multiple_bugs=False,
)


@dataclass
class Record:
    count: int = 0
    holder: MemberId | None = None
    deadline_ms: int = 0
    # Not to be delivered before this time.
    available_ms: int = 0
    # How it was done with.
    fate: str | None = None
    # The transaction that has acknowledged it: its producer, its epoch, and how.
    pending: tuple[ProducerId, int, AcknowledgeType] | None = None

    def after_restart(self) -> "Record":
        """Nobody holds it but an open transaction, and it waits for nothing."""
        return Record(self.count - (self.holder is not None), fate=self.fate, pending=self.pending)


def is_gap(offset: int) -> bool:
    """The last offset of every second batch is a marker or was compacted away."""
    return offset % (2 * BATCH) == 2 * BATCH - 1


@dataclass
class Model:
    records: dict[int, Record] = field(
        default_factory=lambda: {each: Record() for each in range(END) if not is_gap(each)}
    )

    def after_restart(self) -> "Model":
        return Model({offset: record.after_restart() for offset, record in self.records.items()})


class ShareHistories(RuleBasedStateMachine):
    limits = LIMITS

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(self.limits)
        self.model = Model()
        # What each length of the log stands for; of these, the first has been confirmed to members.
        self.stored = [(len(self.driver.log), self.model.after_restart())]

    def remember(self) -> None:
        length = len(self.driver.log)
        if length > self.stored[-1][0]:
            self.stored.append((length, self.model.after_restart()))

    # -- members

    @rule(member=MEMBERS, records_max=st.integers(1, 12), is_strict=st.booleans())
    def acquire(self, member: MemberId, records_max: int, is_strict: bool) -> None:
        self.take(member, records_max, is_strict=is_strict)

    def take(self, member: MemberId, records_max: int, *, is_strict: bool) -> None:
        driver, records = self.driver, self.model.records
        first = driver.share.next_fetch_offset // BATCH * BATCH
        batches: list[tuple[int, int, bool]] = []
        for base in range(first, END, BATCH):
            last = base + BATCH - 1
            batches += [(base, last - 1, True), (last, last, False)] if is_gap(last) else [(base, last, True)]
        held_before = sum(record.holder is not None or record.pending is not None for record in records.values())
        taken = driver.acquire(member, *batches, records_max=records_max, is_strict=is_strict)
        assert all(low <= high for low, high, _ in taken)
        for low, high, count in taken:
            for offset in range(low, high + 1):
                record = records[offset]
                assert record.fate is None, f"{offset} was done with"
                assert record.holder is None, f"{offset} is held by {record.holder}"
                assert record.pending is None, f"{offset} is pending in a transaction"
                assert record.available_ms <= driver.monotonic_ms, f"{offset} has to wait"
                assert count == record.count + 1 <= LIMITS.delivery_count_max
                record.count, record.holder = count, member
                record.deadline_ms = driver.monotonic_ms + LOCK_MS
        size = sum(high - low + 1 for low, high, _ in taken)
        # The end of a batch that had begun may exceed the limits; a restart does not take that back.
        assert size <= records_max + (0 if is_strict else BATCH)
        assert held_before + size <= LIMITS.locks_max + BATCH
        free = [
            offset
            for offset, record in records.items()
            if record.fate is None
            and record.holder is None
            and record.pending is None
            and record.available_ms <= driver.monotonic_ms
        ]
        assert size or not free or not driver.share.has_room(LIMITS.locks_max), "something could have been given"
        self.remember()

    @rule(member=MEMBERS, first=OFFSETS, size=st.integers(1, 6), kind=TYPES)
    def acknowledge(self, member: MemberId, first: int, size: int, kind: AcknowledgeType) -> None:
        last = min(first + size, END) - 1
        asked = [(offset, self.model.records[offset]) for offset in range(first, last + 1) if not is_gap(offset)]
        start = self.driver.share.runs.start
        code = None
        try:
            self.driver.acknowledge(member, (first, last, kind))
        except Refusal as refusal:
            code = refusal.code
        if code is not None:
            assert code in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
            assert any(record.holder != member for _, record in asked) or any(map(is_gap, range(first, last + 1)))
            return
        for offset, record in asked:
            if offset < start or (kind is GAP and record.fate is not None):
                continue
            assert record.holder == member, f"{offset} was not held by {member}"
            self.settle(record, kind)
        self.remember()

    def settle(self, record: Record, kind: AcknowledgeType) -> None:
        if kind is RENEW:
            record.deadline_ms = self.driver.monotonic_ms + LOCK_MS
            return
        record.holder = None
        if kind is not RELEASE:
            record.fate = kind.name
        elif record.count >= LIMITS.delivery_count_max:
            record.fate = "exhausted"
        elif self.limits.backoff_ms:
            record.available_ms = self.driver.monotonic_ms + self.limits.backoff_after(record.count)

    @rule(member=MEMBERS)
    def leave(self, member: MemberId) -> None:
        self.driver.release_all(member)
        for record in self.model.records.values():
            if record.holder == member:
                self.settle(record, RELEASE)
        self.remember()

    # -- time and faults

    @rule(milliseconds=st.sampled_from([1, LOCK_MS // 3, LOCK_MS]))
    def pass_time(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)
        for record in self.model.records.values():
            if record.holder is not None and record.deadline_ms <= self.driver.monotonic_ms:
                self.settle(record, RELEASE)
        self.remember()

    @rule()
    def confirm(self) -> None:
        """All that was decided is on disk, and members have their answers."""
        del self.stored[:-1]

    @rule(lost=st.integers(0, 100))
    def crash(self, lost: int) -> None:
        length, model = self.stored[lost % len(self.stored)]
        self.driver.restart(self.driver.log[:length])
        self.model = Model({offset: replace(record) for offset, record in model.records.items()})
        self.stored = [(length, model)]

    @rule()
    def snapshot(self) -> None:
        """What lies before the snapshots may be deleted at any time."""
        driver = self.driver
        before = len(driver.log)
        driver.run(lambda: driver.machine.decide_snapshots(driver.now))
        del driver.log[:before]
        self.stored = [(1, self.model.after_restart())]

    # -- checks

    @invariant()
    def the_machine_knows_each_record_as_the_model_does(self) -> None:
        states = self.driver.states()
        start = self.driver.share.runs.start
        for offset, record in self.model.records.items():
            found, count = states.get(offset, ("ARCHIVED" if offset < start else "AVAILABLE", 0))
            waits = record.available_ms > self.driver.monotonic_ms
            free = "WAITING" if waits else "AVAILABLE"
            held = "PENDING" if record.pending else free if record.holder is None else "ACQUIRED"
            expected = "final" if record.fate else held
            assert ("final" if found in ("ARCHIVED", "ACKNOWLEDGED") else found) == expected, offset
            assert expected == "final" or count == record.count

    @invariant()
    def memory_is_bounded_by_the_limit_of_locks(self) -> None:
        assert len(self.driver.share.runs) <= 2 * (LIMITS.locks_max + BATCH) + 1

    def teardown(self) -> None:
        """One good member is left: it gets each record that is not done with, once, and then there is none."""
        self.driver.advance(LOCK_MS)
        for record in self.model.records.values():
            if record.holder is not None:
                self.settle(record, RELEASE)
        self.driver.advance(self.limits.backoff_max_ms)
        good = MemberId("good")
        for _ in range(END):
            before = {offset: record.count for offset, record in self.model.records.items()}
            self.take(good, 3, is_strict=False)
            got = [offset for offset, record in self.model.records.items() if record.count > before[offset]]
            if not got:
                break
            for offset in got:
                self.driver.acknowledge(good, (offset, offset, ACCEPT))
                self.settle(self.model.records[offset], ACCEPT)
        assert all(record.fate for record in self.model.records.values())
        self.driver.restart()
        assert self.driver.machine.partitions[ORDERS].runs.unfinished_count <= BATCHES, "only gaps may be left"


class BackoffHistories(ShareHistories):
    """Records that are given back wait."""

    limits = LIMITS._replace(backoff_ms=LOCK_MS // 2, delivery_count_max=2)
