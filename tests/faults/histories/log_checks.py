"""Invariants of the records in a log: I1 to I5, I7 and I10."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.faults.histories.facts import Facts, Place, Sighting, Violation
from tests.faults.histories.recording import Operation


def lost(facts: Facts) -> Iterator[Violation]:
    """I1: acknowledged records are there at the end, unless retention or compaction removed them."""
    found = {
        (fetch.place, offset): value
        for fetch in facts.audit(committed_only=False)
        for offset, value in fetch["records"]
    }
    starts: dict[Place, int] = {}
    for fetch in facts.audit(committed_only=False):
        starts[fetch.place] = max(starts.get(fetch.place, 0), fetch["log_start_offset"])
    newest: dict[tuple[Place, str], int] = {}
    for (place, offset), value in found.items():
        if value in facts.sends:
            key = place, facts.sends[value]["key"]
            newest[key] = max(newest.get(key, -1), offset)
    outcomes = facts.outcomes()
    for send in facts.ok("send"):
        offset, topic = send["offset"], send["topic"]
        if found.get((send.place, offset)) == send["value"]:
            continue
        if facts.topics[topic]["is_limited"] and offset < starts.get(send.place, 0):
            continue
        if facts.is_compacted(topic):
            is_replaced = newest.get((send.place, send["key"]), -1) > offset
            # The cleaner drops aborted records.
            if is_replaced or outcomes.get(send["transaction"]) in ("aborted", "unknown"):
                continue
        yield Violation("I1", f"acknowledged at offset {offset} of {send.place}, and lost", [send])


def unstable(facts: Facts) -> Iterator[Violation]:
    """I2: an offset has the same value for every reader at any time."""
    values: dict[tuple[Place, int], tuple[str, Operation]] = {
        (send.place, send["offset"]): (send["value"], send) for send in facts.ok("send")
    }
    for sighting in facts.sightings:
        where = sighting.place, sighting.offset
        value, first = values.setdefault(where, (sighting.value, sighting.by))
        if value != sighting.value:
            text = f"offset {sighting.offset} of {sighting.place} is {value!r} and {sighting.value!r}"
            yield Violation("I2", text, [first, sighting.by])


def duplicated(facts: Facts) -> Iterator[Violation]:
    """I3: an idempotent producer's record has exactly one offset."""
    first: dict[str, Sighting] = {}
    for sighting in facts.sightings:
        before = first.setdefault(sighting.value, sighting)
        if (before.place, before.offset) != (sighting.place, sighting.offset):
            text = f"{sighting.value!r} is at {before.place} {before.offset} and at {sighting.place} {sighting.offset}"
            yield Violation("I3", text, [before.by, sighting.by])


def reordered(facts: Facts) -> Iterator[Violation]:
    """I4: records of one producer lie in a partition in the order in which they were sent."""
    offsets: dict[str, int] = {}
    for sighting in facts.sightings:
        offsets.setdefault(sighting.value, sighting.offset)
    sent: dict[tuple[str, Place], list[tuple[int, Operation]]] = defaultdict(list)
    for value, offset in offsets.items():
        if value in facts.sends:
            send = facts.sends[value]
            sent[send.process, send.place].append((offset, send))
    for (process, place), sends in sent.items():
        sends.sort(key=lambda each: each[0])
        for (_, earlier), (offset, later) in pairwise(sends):
            if later.id < earlier.id:
                yield Violation("I4", f"{process} overtook itself at offset {offset} of {place}", [earlier, later])


def phantoms(facts: Facts) -> Iterator[Violation]:
    """I5: every record read was sent to that partition and not refused."""
    for value, sighting in {sighting.value: sighting for sighting in facts.sightings}.items():
        send = facts.sends.get(value)
        if send is None:
            yield Violation("I5", f"{value!r} was read, but never sent", [sighting.by])
        elif send.place != sighting.place or send.outcome == "fail":
            yield Violation("I5", f"{value!r} was read at {sighting.place}", [send, sighting.by])


def sparse(facts: Facts) -> Iterator[Violation]:
    """I7: every offset has a record or a control batch, unless compaction removed it."""
    for fetch in facts.ok("fetch"):
        expected = fetch["offset"]
        for first, last, record_count in fetch["batches"]:
            # The first batch may begin before the requested offset.
            is_dense = first <= expected <= last if expected == fetch["offset"] else first == expected
            if facts.is_compacted(fetch["topic"]):
                is_dense = last >= expected
            elif record_count != last - first + 1:
                is_dense = False
            if not is_dense:
                text = f"{record_count} records at {first} to {last} of {fetch.place}, where {expected} comes next"
                yield Violation("I7", text, [fetch])
            expected = max(expected, last + 1)


def moved_back(facts: Facts) -> Iterator[Violation]:
    """I10: the high watermark and the last stable offset never go back, and the latter is never ahead of the former."""
    by_place: dict[Place, list[Operation]] = defaultdict(list)
    for fetch in facts.ok("fetch"):
        by_place[fetch.place].append(fetch)
        if fetch["last_stable_offset"] > fetch["high_watermark"]:
            yield Violation("I10", f"{fetch.place} is stable beyond its high watermark", [fetch])
    for place, fetches in by_place.items():
        ended = sorted(fetches, key=lambda each: each.ended_ns)
        for name in ("high_watermark", "last_stable_offset"):
            answered = iter(ended)
            next_answer = next(answered, None)
            highest: Operation | None = None
            for fetch in fetches:
                while next_answer is not None and next_answer.ended_ns < fetch.begun_ns:
                    if highest is None or next_answer[name] > highest[name]:
                        highest = next_answer
                    next_answer = next(answered, None)
                if highest is not None and fetch[name] < highest[name]:
                    text = f"the {name} of {place} was {highest[name]}, then {fetch[name]}"
                    yield Violation("I10", text, [highest, fetch])
