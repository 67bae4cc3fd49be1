"""I14: each record of a share group ends in exactly one way, is held by one member at a time, and is delivered no more
often than the limit.

A restart of the broker ends holds, and the deliveries that they were have not counted. A delivery count tells which of
two deliveries was the later one: it rises with each, and no restart takes back more than the last.
"""

from collections.abc import Iterator
from itertools import combinations

from tests.faults.histories.facts import Facts, Violation
from tests.faults.queues.share_facts import Delivery, Key, ShareFacts

EXHAUSTED = "exhausted"
EXPIRED = "expired"
REJECTED = "rejected"


def ended_wrongly(facts: Facts) -> Iterator[Violation]:
    share = ShareFacts(facts)
    for key in {**share.deliveries, **share.settlements, **share.letters}:
        yield from _delivered(share, key)
        yield from _accepted(share, key)
        yield from _dead(share, key)
    for audit in facts.ok("backlog"):
        yield from _left(share, audit["group"], facts)


def _delivered(share: ShareFacts, key: Key) -> Iterator[Violation]:
    deliveries = share.deliveries.get(key, [])
    for each in deliveries:
        if each.delivery_count > share.limit(key):
            yield Violation("I14", f"{key} was delivered for the {each.delivery_count}th time", [each.by])
        ends = {(partition, offset): end_ms for partition, offset, _, end_ms in each.by["records"]}
        end_ms = ends[key.partition, key.offset]
        if end_ms is not None and each.is_exact and each.by["wall_ms"] > end_ms:
            yield Violation("I14", f"{key} was delivered although it had expired", [each.by])
    for one, other in combinations(sorted(deliveries, key=lambda each: each.by.ended_ns), 2):
        is_same = one.delivery_count == other.delivery_count and not share.has_restarted(
            one.by.begun_ns, other.by.ended_ns
        )
        if is_same or _overlap(share, key, one, other):
            yield Violation("I14", f"{key} was given to two at once", [one.by, other.by])


def _overlap(share: ShareFacts, key: Key, one: Delivery, other: Delivery) -> bool:
    """Whether the second was given the record while the first held it, without any doubt."""
    if not (one.is_exact and other.is_exact) or one.by.ended_ns > other.by.begun_ns:
        return False
    known_ns = other.by.ended_ns
    if known_ns >= one.by.begun_ns + share.lock_ns(key) or share.has_restarted(one.by.begun_ns, known_ns):
        return False
    settled = [each for each in share.settlements.get(key, ()) if each.member == one.member]
    return not any(each.by.begun_ns < known_ns for each in settled) and not any(
        one.by.begun_ns < each.begun_ns < known_ns for each in share.departures[one.member]
    )


def _accepted(share: ShareFacts, key: Key) -> Iterator[Violation]:
    accepted = share.accepted(key)
    if len(accepted) > 1:
        yield Violation("I14", f"{key} was accepted {len(accepted)} times", [each.by for each in accepted])
    for each in accepted:
        for later in share.deliveries.get(key, ()):
            if later.delivery_count > each.delivery_count and later.by.begun_ns > each.by.ended_ns:
                yield Violation("I14", f"{key} was delivered after it was accepted", [each.by, later.by])
    for each in share.settlements.get(key, ()):
        own = [
            one
            for one in share.deliveries.get(key, ())
            if one.member == each.member and one.delivery_count > each.delivery_count
        ]
        for later in share.deliveries.get(key, ()) if each.by.is_ok and not own else ():
            if (
                later.member != each.member
                and later.delivery_count > each.delivery_count
                and later.by.ended_ns < each.by.begun_ns
            ):
                yield Violation("I14", f"{key} was settled by a member that had lost it", [later.by, each.by])


def _dead(share: ShareFacts, key: Key) -> Iterator[Violation]:
    letters = share.letters.get(key, ())
    if len(letters) > 1:
        yield Violation("I14", f"{key} has {len(letters)} dead letters", [each.by for each in letters])
    for each in letters:
        if accepted := share.accepted(key):
            yield Violation("I14", f"{key} was accepted, and is a dead letter", [accepted[0].by])
        if each.reason == EXHAUSTED and each.delivery_count != share.limit(key):
            yield Violation("I14", f"{key} was given up after {each.delivery_count} deliveries", [each.by])
        rejected = any(one.kind == "reject" and one.by.outcome != "fail" for one in share.settlements.get(key, ()))
        if each.reason == REJECTED and not rejected:
            yield Violation("I14", f"{key} is a dead letter, although nobody rejected it", [each.by])
    for each in share.settlements.get(key, ()):
        if each.kind == "reject" and each.by.is_ok and not letters and share.groups[key.group]["has_letters"]:
            yield Violation("I14", f"{key} was rejected, and is no dead letter", [each.by])


def _left(share: ShareFacts, group: str, facts: Facts) -> Iterator[Violation]:
    """At the end nothing is left to be delivered: each record was accepted, or is a dead letter."""
    topic = share.groups[group]["topic"]
    for fetch in facts.audit(committed_only=False):
        for offset, value in fetch["records"] if fetch["topic"] == topic else ():
            key = Key(group, topic, fetch["partition"], offset)
            if not share.may_be_accepted(key) and key not in share.letters:
                yield Violation("I14", f"{key} was neither accepted nor given up: {value}", [fetch])
