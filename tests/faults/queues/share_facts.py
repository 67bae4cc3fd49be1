"""Facts of a history about share groups: who was given which record, what was said of it, and the dead letters."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.faults.histories.facts import Facts
from tests.faults.histories.recording import Operation


class Key(NamedTuple):
    """A record, as one group sees it."""

    group: str
    topic: str
    partition: int
    offset: int


class Delivery(NamedTuple):
    member: str
    delivery_count: int
    # The fetch that gave it, or the poll of a client that fetches by itself.
    by: Operation

    @property
    def is_exact(self) -> bool:
        """Whether it was acquired within the operation."""
        return self.by["is_exact"]


class Settlement(NamedTuple):
    member: str
    kind: str
    delivery_count: int
    by: Operation


class Letter(NamedTuple):
    delivery_count: int
    reason: str
    by: Operation


class ShareFacts:
    def __init__(self, facts: Facts) -> None:
        self.groups: Mapping[str, Operation] = {each["group"]: each for each in facts.of("group")}
        self.restarts = facts.of("restart")
        self.deliveries: dict[Key, list[Delivery]] = defaultdict(list)
        self.settlements: dict[Key, list[Settlement]] = defaultdict(list)
        self.letters: dict[Key, list[Letter]] = defaultdict(list)
        # When a member gave up what it held, or may have.
        self.departures: dict[str, list[Operation]] = defaultdict(list)
        for each in facts.ok("share"):
            for partition, offset, count, *_ in each["records"]:
                key = Key(each["group"], each["topic"], partition, offset)
                self.deliveries[key].append(Delivery(each["member"], count, each))
        for each in facts.of("settle"):
            for partition, offset, count in each["records"]:
                key = Key(each["group"], each["topic"], partition, offset)
                self.settlements[key].append(Settlement(each["member"], each["verdict"], count, each))
        for each in facts.ok("letters"):
            for partition, offset, count, reason in each["records"]:
                self.letters[Key(each["group"], each["topic"], partition, offset)].append(Letter(count, reason, each))
        for each in facts.of("depart"):
            self.departures[each["member"]].append(each)
        for each in facts.of("gone"):
            self.departures[each["client"]].append(each)

    def limit(self, key: Key) -> int:
        return self.groups[key.group]["limit"]

    def lock_ns(self, key: Key) -> float:
        return self.groups[key.group]["lock_ms"] * 1e6

    def accepted(self, key: Key) -> Sequence[Settlement]:
        return [each for each in self.settlements.get(key, ()) if each.kind == "accept" and each.by.is_ok]

    def may_be_accepted(self, key: Key) -> bool:
        return any(each.kind == "accept" and each.by.outcome != "fail" for each in self.settlements.get(key, ()))

    def has_restarted(self, begun_ns: float, ended_ns: float) -> bool:
        """Whether the broker may have ended within this time: a restart ends holds, and forgets these deliveries."""
        return any(each.begun_ns <= ended_ns and each.ended_ns >= begun_ns for each in self.restarts)
