"""The events that the members of a group recorded, and the checks that they show a working group.

Each member tells what it was given and what it gave up, what it processed and what it committed, each with the
generation (or member epoch) that it believed in. Times are of one clock for all processes of a machine.
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple, TypeAlias


class Assigned(NamedTuple):
    at_ns: int
    generation: int
    partitions: Sequence[int]


class Revoked(NamedTuple):
    """Recorded before the member tells the broker, so that the next owner's event is always later."""

    at_ns: int
    generation: int
    partitions: Sequence[int]


class Lost(NamedTuple):
    """The member learnt that it had been put out of its group, some time after that happened."""

    at_ns: int
    generation: int
    partitions: Sequence[int]


class Processed(NamedTuple):
    """`ranges` are of a partition, a first and a last offset."""

    at_ns: int
    generation: int
    ranges: Sequence[tuple[int, int, int]]


class Committed(NamedTuple):
    """Pairs of a partition and the offset that was acknowledged for it."""

    at_ns: int
    generation: int
    offsets: Sequence[tuple[int, int]]


class Refused(NamedTuple):
    """A commit that was not accepted."""

    at_ns: int
    generation: int
    reason: str


class Ended(NamedTuple):
    at_ns: int


Event: TypeAlias = Assigned | Revoked | Lost | Processed | Committed | Refused | Ended
History: TypeAlias = Sequence[Event]

KINDS: Mapping[str, type[Event]] = {
    kind.__name__.lower(): kind for kind in (Assigned, Revoked, Lost, Processed, Committed, Refused, Ended)
}


def read_event(line: str) -> Event:
    """One line of a member: the name of the event and its fields."""
    name, *fields = json.loads(line)
    return KINDS[name](*fields)


class Ownership(NamedTuple):
    member: str
    partition: int
    generation: int
    from_ns: int
    # None while it lasts.
    until_ns: int | None
    is_lost: bool

    def overlaps(self, later: "Ownership") -> bool:
        return self.until_ns is None or later.from_ns < self.until_ns


def ownerships(member: str, history: History) -> Iterator[Ownership]:
    owned: dict[int, Ownership] = {}
    for event in history:
        match event:
            case Assigned():
                for partition in event.partitions:
                    yield from _ended(owned, [partition], event.at_ns)
                    owned[partition] = Ownership(member, partition, event.generation, event.at_ns, None, False)
            case Revoked():
                yield from _ended(owned, event.partitions, event.at_ns)
            case Lost():
                yield from _ended(owned, event.partitions, event.at_ns, is_lost=True)
            case Ended():
                yield from _ended(owned, list(owned), event.at_ns)
            case _:
                pass
    yield from owned.values()


def _ended(
    owned: dict[int, Ownership], partitions: Iterable[int], at_ns: int, *, is_lost: bool = False
) -> Iterator[Ownership]:
    for partition in partitions:
        if (ending := owned.pop(partition, None)) is not None:
            yield ending._replace(until_ns=at_ns, is_lost=is_lost)


def complaints(histories: Mapping[str, History], end_offsets: Mapping[int, int]) -> list[str]:
    """Every violation by the members of a group on a topic with these end offsets."""
    return [
        *never_processed(histories, end_offsets),
        *processed_twice(histories),
        *two_owners_in_a_generation(histories),
        *two_owners_at_a_time(histories),
        *commits_that_went_back(histories),
        *commits_forgotten(histories),
    ]


def never_processed(histories: Mapping[str, History], end_offsets: Mapping[int, int]) -> Iterator[str]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for _, event in _processed(histories):
        for partition, first, last in event.ranges:
            found[partition].append((first, last))
    for partition, end_offset in end_offsets.items():
        expected = 0
        for first, last in sorted([*found[partition], (end_offset, end_offset)]):
            if first > expected:
                yield f"nobody processed the offsets {expected} to {first - 1} of partition {partition}"
            expected = max(expected, last + 1)


def processed_twice(histories: Mapping[str, History]) -> Iterator[str]:
    found: dict[tuple[int, int], list[tuple[int, int, str]]] = defaultdict(list)
    for member, event in _processed(histories):
        for partition, first, last in event.ranges:
            found[event.generation, partition].append((first, last, member))
    for (generation, partition), ranges in found.items():
        for (_, last, one), (first, _, other) in pairwise(sorted(ranges)):
            if first <= last:
                yield f"{one} and {other} both processed offset {first} of partition {partition} in {generation}"


def two_owners_in_a_generation(histories: Mapping[str, History]) -> Iterator[str]:
    owners: dict[tuple[int, int], set[str]] = defaultdict(set)
    for member, history in histories.items():
        for event in history:
            match event:
                case Assigned():
                    partitions = event.partitions
                case Processed():
                    # Also says what a member kept when its group went on to another generation.
                    partitions = [partition for partition, _, _ in event.ranges]
                case _:
                    continue
            for partition in partitions:
                owners[event.generation, partition].add(member)
    for (generation, partition), members in owners.items():
        if len(members) > 1:
            yield f"partition {partition} belonged to {' and '.join(sorted(members))} in generation {generation}"


def two_owners_at_a_time(histories: Mapping[str, History]) -> Iterator[str]:
    by_partition: dict[int, list[Ownership]] = defaultdict(list)
    for member, history in histories.items():
        for ownership in ownerships(member, history):
            by_partition[ownership.partition].append(ownership)
    for partition, owned in by_partition.items():
        owned.sort(key=lambda each: each.from_ns)
        for earlier, later in combinations(owned, 2):
            if earlier.member == later.member or not earlier.overlaps(later):
                continue
            # A member that sleeps beyond its session learns late that it is out; what it holds is of the past.
            if not (earlier.is_lost and earlier.generation < later.generation):
                yield f"{later.member} got partition {partition} while {earlier.member} had it"


def commits_that_went_back(histories: Mapping[str, History]) -> Iterator[str]:
    for member, history in histories.items():
        reached: dict[int, int] = {}
        for event in history:
            match event:
                case Assigned():
                    for partition in event.partitions:
                        reached.pop(partition, None)
                case Committed():
                    for partition, offset in event.offsets:
                        if offset < reached.get(partition, 0):
                            yield f"{member} committed {offset} of partition {partition} after {reached[partition]}"
                        reached[partition] = offset
                case _:
                    pass


def commits_forgotten(histories: Mapping[str, History]) -> Iterator[str]:
    """A member that gets a partition resumes at the last acknowledged commit of all earlier owners."""
    commits: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for history in histories.values():
        for event in history:
            if isinstance(event, Committed):
                for partition, offset in event.offsets:
                    commits[partition].append((event.at_ns, offset))
    for of_partition in commits.values():
        of_partition.sort()
    for member, history in histories.items():
        given_ns: dict[int, int] = {}
        for event in history:
            match event:
                case Assigned():
                    given_ns |= dict.fromkeys(event.partitions, event.at_ns)
                case Processed():
                    for partition, first, _ in event.ranges:
                        if partition not in given_ns:
                            continue
                        before = bisect_left(commits[partition], (given_ns.pop(partition), 0))
                        if before and first < (offset := commits[partition][before - 1][1]):
                            yield f"{member} began at {first} of partition {partition}, although {offset} was committed"
                case _:
                    pass


def _processed(histories: Mapping[str, History]) -> Iterator[tuple[str, Processed]]:
    for member, history in histories.items():
        for event in history:
            if isinstance(event, Processed):
                yield member, event
