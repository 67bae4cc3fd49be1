"""Invariant of transactions, I8: a transaction is visible completely or not at all, with its committed offsets."""

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.histories.facts import Facts, Place, Sighting, Violation
from tests.faults.histories.group_checks import misread, registers
from tests.faults.histories.recording import Operation


def torn(facts: Facts) -> Iterator[Violation]:
    seen: dict[str, Sighting] = {}
    for sighting in facts.sightings:
        if sighting.committed_only:
            seen.setdefault(sighting.value, sighting)
    yield from _not_atomic(facts, seen)
    yield from _copied_wrongly(facts, seen)
    groups = {end["group"] for end in facts.of("end")}
    for (group, place), register in registers(facts).items():
        if group in groups:
            yield from misread("I8", facts, group, place, register)


def _not_atomic(facts: Facts, seen: dict[str, Sighting]) -> Iterator[Violation]:
    sends: dict[str, list[Operation]] = defaultdict(list)
    for send in facts.of("send"):
        if send["transaction"] is not None:
            sends[send["transaction"]].append(send)
    ends = {end["transaction"]: end for end in facts.of("end")}
    outcomes = facts.outcomes()
    for name, of_transaction in sends.items():
        shown = [send for send in of_transaction if send["value"] in seen]
        # Records removed since prove nothing.
        hidden = [
            send
            for send in of_transaction
            if send.is_ok and send["value"] not in seen and facts.is_complete(send["topic"])
        ]
        proof = [ends[name]] if name in ends else []
        if shown and outcomes[name] == "aborted":
            sighting = seen[shown[0]["value"]]
            yield Violation("I8", f"{name} was aborted, and seen", [shown[0], *proof, sighting.by])
        elif hidden and (shown or outcomes[name] == "committed"):
            text = f"of {name} {len(shown)} records are seen and {len(hidden)} are not"
            yield Violation("I8", text, [*shown[:1], hidden[0], *proof])


def _copied_wrongly(facts: Facts, seen: dict[str, Sighting]) -> Iterator[Violation]:
    """Consume, transform, produce: each record below the copier's committed offset has exactly one copy."""
    copies: dict[tuple[Place, int], Operation] = {}
    for value in seen:
        send = facts.sends.get(value)
        if send is None or send["source"] is None:
            continue
        topic, partition, offset = send["source"]
        first = copies.setdefault(((topic, partition), offset), send)
        if first is not send:
            yield Violation("I8", f"offset {offset} of {topic}-{partition} was copied twice", [first, send])
    groups = {end["group"] for end in facts.of("end")}
    reached: dict[Place, tuple[int, Operation]] = {}
    for read in facts.ok("committed"):
        if read["group"] in groups:
            for partition, offset in read["offsets"]:
                reached[read["topic"], partition] = offset, read
    for fetch in facts.audit(committed_only=True):
        end_offset, read = reached.get(fetch.place, (0, fetch))
        if facts.is_complete(fetch["topic"]):
            for offset, value in fetch["records"]:
                if offset < end_offset and (fetch.place, offset) not in copies:
                    yield Violation("I8", f"{value!r} at {fetch.place} {offset} was passed over", [read])
