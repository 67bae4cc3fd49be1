"""Facts of a history about records: who sent them, who saw them where, and the outcome of transactions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from tests.faults.histories.recording import Operation

Place = tuple[str, int]
# The process that reads everything at the end.
AUDIT = "audit"


class Violation(NamedTuple):
    invariant: str
    text: str
    proof: Sequence[Operation] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.invariant}: {self.text}", *map(str, self.proof)])


class Sighting(NamedTuple):
    """A record that a client read."""

    place: Place
    offset: int
    value: str
    committed_only: bool
    by: Operation


class Facts:
    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = sorted(operations, key=lambda each: each.begun_ns)
        self._by_kind: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            self._by_kind[operation.kind].append(operation)
        self.topics = {each["topic"]: each for each in self.of("topic")}
        self.sends = {each["value"]: each for each in self.of("send")}
        self.sightings = [*self._sightings()]

    def of(self, kind: str) -> Sequence[Operation]:
        return self._by_kind[kind]

    def ok(self, kind: str) -> Sequence[Operation]:
        return [each for each in self._by_kind[kind] if each.is_ok]

    def audit(self, *, committed_only: bool) -> Sequence[Operation]:
        return [each for each in self.ok("fetch") if each.process == AUDIT and each["committed_only"] is committed_only]

    def is_compacted(self, topic: str) -> bool:
        return topic in self.topics and self.topics[topic]["is_compacted"]

    def is_complete(self, topic: str) -> bool:
        """Whether records are never removed from the topic."""
        return topic in self.topics and not (self.topics[topic]["is_compacted"] or self.topics[topic]["is_limited"])

    def outcomes(self) -> dict[str, Literal["committed", "aborted", "unknown"]]:
        """Outcomes by transaction. Without a commit request it is aborted: by producer, successor or time-out."""
        outcomes: dict[str, Literal["committed", "aborted", "unknown"]] = {
            send["transaction"]: "aborted" for send in self.of("send") if send["transaction"] is not None
        }
        for end in self.of("end"):
            name = end["transaction"]
            if end["is_commit"] and end.is_ok:
                outcomes[name] = "committed"
            elif end["is_commit"] and end.outcome == "info":
                outcomes[name] = "unknown"
            elif not end["is_commit"] and end.is_ok:
                # The coordinator never reverts a decision, so an earlier commit attempt had no effect.
                outcomes[name] = "aborted"
        return outcomes

    def _sightings(self) -> Iterator[Sighting]:
        for fetch in self.ok("fetch"):
            for offset, value in fetch["records"]:
                yield Sighting(fetch.place, offset, value, fetch["committed_only"], fetch)
        for poll in self.ok("poll"):
            for partition, offset, value in poll["records"]:
                yield Sighting((poll["topic"], partition), offset, value, poll["committed_only"], poll)
