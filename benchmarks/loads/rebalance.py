"""A group of many members in one thread: how long it takes after a membership change until all have their new
partitions.
"""

import heapq
import select
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from benchmarks.loads import frames
from benchmarks.loads.members import NEVER, ClassicMember, ConsumerMember, GroupPlan, Member
from benchmarks.loads.offsets import fetch_all
from benchmarks.processes import cpu_seconds
from benchmarks.topics import retrying
from headwater.client.errors import check
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

PHASE_TIMEOUT_S = 60.0
FIND_COORDINATOR_VERSION = 4
KINDS: dict[str, type[ClassicMember] | type[ConsumerMember]] = {"classic": ClassicMember, "consumer": ConsumerMember}


@dataclass(frozen=True, slots=True)
class Rebalance:
    phase: str
    seconds: float
    waited_s: float
    """The part of it in which nothing happened but that heartbeats became due."""
    broker_s: float
    kept_share: float
    """Of the partitions: those whose owner was never told to let go."""
    longest_gap_s: float
    """Between two answers to the same member."""


class Fleet:
    def __init__(self, plan: GroupPlan, kind: type[ClassicMember] | type[ConsumerMember]) -> None:
        self.members: dict[int, Member] = {}
        self._plan = plan
        self._kind = kind
        self._poll = select.epoll()
        # Scheduled heartbeats. Entries that are out of date are skipped.
        self._due: list[tuple[float, int]] = []
        self._owned_count = 0
        self._last: Member | None = None

    def add(self) -> Member:
        member = self._kind(self._plan)
        self.members[member.connection.fileno()] = member
        self._poll.register(member.connection, select.EPOLLIN)
        return member

    def remove(self, member: Member) -> None:
        """Drop the member's connection without LeaveGroup."""
        self._owned_count -= len(member.owned)
        del self.members[member.connection.fileno()]
        self._poll.unregister(member.connection)
        member.connection.close()

    def dismiss(self, member: Member) -> None:
        """Let the member leave, as a closed consumer does."""
        member.leave()
        self.run(lambda: not member.owned)
        self.remove(member)

    def close(self) -> None:
        """All leave, so that their sessions do not end while something else is measured."""
        self.run(lambda: all(member.is_resting for member in self.members.values()))
        for member in self.members.values():
            member.leave()
        self.run(lambda: not any(member.owned for member in self.members.values()))
        for member in [*self.members.values()]:
            self.remove(member)
        self._poll.close()

    def run(self, is_over: Callable[[], bool], until: float = NEVER) -> None:
        """Run all members until the rebalance is over, or until the deadline."""
        deadline = time.monotonic() + PHASE_TIMEOUT_S
        while not is_over():
            now = time.monotonic()
            if now >= until:
                return
            if now >= deadline:
                raise TimeoutError(f"the group is not settled after {PHASE_TIMEOUT_S:.0f} s")
            while self._due and self._due[0][0] <= now:
                due, descriptor = heapq.heappop(self._due)
                member = self.members.get(descriptor)
                if member is not None and member.due == due:
                    member.heartbeat()
            next_due = self._due[0][0] if self._due else deadline
            for descriptor, _ in self._poll.poll(max(0.0, min(next_due, until, deadline) - now)):
                self._receive(self.members[descriptor])

    def _receive(self, member: Member) -> None:
        owned = member.owned
        member.receive()
        if member.due < NEVER:
            heapq.heappush(self._due, (member.due, member.connection.fileno()))
        if member.owned is not owned:
            self._owned_count += len(member.owned) - len(owned)
            self._last = member

    def spread(self) -> None:
        """Heartbeats that follow each other evenly, as those of clients that know nothing of each other, for as long as
        it takes until everyone has heard of all that was."""
        interval_s = self._plan.heartbeat_interval_ms / 1000
        self.run(lambda: all(member.is_resting for member in self.members.values()))
        now = time.monotonic()
        for index, (descriptor, member) in enumerate(self.members.items()):
            member.due = now + interval_s * index / len(self.members)
            heapq.heappush(self._due, (member.due, descriptor))
        self.run(lambda: False, until=now + 2 * interval_s)

    def measure(self, phase: str, processes: Collection[int], act: Callable[[], object], began: float) -> Rebalance:
        for member in self.members.values():
            member.begin(began)
        broker_before_s = cpu_seconds(processes)
        act()
        self.run(self._is_settled)
        ended = time.monotonic()
        members = self.members.values()
        assert self._last is not None, "someone was last"
        return Rebalance(
            phase,
            ended - began,
            self._kind.group_waited_s(members, self._last),
            cpu_seconds(processes) - broker_before_s,
            1 - len(set(chain.from_iterable(member.lost for member in members))) / self._plan.partitions,
            max(member.longest_gap_s for member in members),
        )

    def _is_settled(self) -> bool:
        # The count is enough to know that it is not over, which is what is asked most of the time.
        return self._owned_count == self._plan.partitions and is_settled(
            [member.owned for member in self.members.values()], self._plan.partitions
        )


def is_settled(owned: Sequence[frozenset[int]], partitions: int) -> bool:
    """Whether every partition has one owner and the members' shares differ by at most one."""
    sizes = [len(each) for each in owned]
    return (
        sum(sizes) == partitions
        and max(sizes) - min(sizes) <= 1
        and len(frozenset(chain.from_iterable(owned))) == partitions
    )


def find_coordinator(address: str, group_ids: Iterable[str]) -> None:
    """Find the coordinator, as every client does first. A broker may create its groups topic only then."""
    names = list(group_ids)
    frame = frames.request_frame(FindCoordinatorRequest(coordinator_keys=names), FIND_COORDINATOR_VERSION)
    with frames.connect(address) as connection:
        retrying(lambda: _check_coordinators(frames.exchange(connection, frame)), PHASE_TIMEOUT_S)
        fetch_all(connection, names, time.monotonic() + PHASE_TIMEOUT_S)


def _check_coordinators(response: bytearray) -> None:
    found = frames.read_response(FindCoordinatorResponse, FIND_COORDINATOR_VERSION, response)
    for coordinator in found.coordinators:
        check(coordinator.error_code, f"coordinator of {coordinator.key}", coordinator.error_message)


def rebalance(
    ready: Callable[[], None], plan: GroupPlan, protocol: str, members: int, processes: Collection[int]
) -> list[Rebalance]:
    """All join, one more joins, one leaves, one dies."""
    find_coordinator(plan.address, [plan.group_id])
    fleet = Fleet(plan, KINDS[protocol])
    first = [fleet.add() for _ in range(members)]
    ready()
    measured = [fleet.measure("all join", processes, lambda: [each.join() for each in first], time.monotonic())]
    fleet.spread()

    measured.append(fleet.measure("one joins", processes, lambda: fleet.add().join(), time.monotonic()))
    fleet.spread()

    leaving = first[members // 2]
    fleet.run(lambda: leaving.is_resting)
    measured.append(fleet.measure("one leaves", processes, lambda: fleet.dismiss(leaving), time.monotonic()))
    fleet.spread()

    dying = first[0]
    fleet.run(lambda: dying.is_resting)
    fleet.remove(dying)
    session_ends = dying.sent + plan.session_timeout_ms / 1000
    fleet.run(lambda: False, until=session_ends)
    measured.append(fleet.measure("one dies", processes, lambda: None, session_ends))
    fleet.close()
    return measured
