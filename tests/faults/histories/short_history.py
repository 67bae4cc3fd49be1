"""Histories of a few lines, written by hand, for tests of the checks."""

import math
from itertools import count
from typing import Any

from tests.faults.histories.checking import violations
from tests.faults.histories.facts import AUDIT
from tests.faults.histories.recording import Operation, Outcome

Fields = dict[str, Any]

END = 10
SENT: Fields = {"topic": "t", "partition": 0, "key": "a", "value": "a", "transaction": None, "source": None}


class History:
    """Operations one after the other, a second each; `begun` and `ended` make them overlap."""

    def __init__(self, **topic: bool) -> None:
        self.operations: list[Operation] = []
        self._ids = count()
        settings: Fields = {"is_compacted": False, "is_limited": False, **topic}
        self("topic", topic="t", partitions=1, **settings)

    def __call__(
        self,
        kind: str,
        process: str = "one",
        *,
        outcome: Outcome = "ok",
        begun: float | None = None,
        ended: float | None = None,
        **fields: Any,
    ) -> None:
        number = next(self._ids)
        begun_ns = (number if begun is None else begun) * 1e9
        ended_ns = math.inf if outcome == "info" else begun_ns + 5e8 if ended is None else ended * 1e9
        self.operations.append(Operation(process, number, kind, begun_ns, ended_ns, outcome, fields))

    def send(self, value: str, offset: int | None = None, *, transaction: str | None = None, **more: Any) -> None:
        fields: Fields = {
            "topic": "t",
            "partition": 0,
            "key": value[0],
            "value": value,
            "transaction": transaction,
        }
        known: Fields = {} if offset is None else {"offset": offset}
        outcome: Outcome = "info" if offset is None else "ok"
        self("send", **{"outcome": outcome, "source": None, **more}, **fields, **known)

    def fetch(self, first: int, *values: str, process: str = AUDIT, committed_only: bool = False, **more: Any) -> None:
        """A fetch that returned one batch of these records, from an offset on."""
        batches = [(first, first + len(values) - 1, len(values))] if values else []
        told: Fields = {"high_watermark": END, "last_stable_offset": END, "log_start_offset": 0}
        told |= {"batches": batches, "records": [*enumerate(values, first)]}
        self("fetch", process, topic="t", partition=0, offset=first, committed_only=committed_only, **(told | more))

    def poll(self, *records: tuple[int, str], process: str = "one", generation: int = 1) -> None:
        found = [(0, offset, value) for offset, value in records]
        fields: Fields = {
            "group": "g",
            "member": process,
            "generation": generation,
            "topic": "t",
            "committed_only": False,
        }
        self("poll", process, **fields, records=found)

    def assign(self, process: str = "one", generation: int = 1) -> None:
        fields: Fields = {"group": "g", "protocol": "classic", "member": process, "generation": generation}
        self("assign", process, **fields, topic="t", partitions=[0])

    def commit(self, offset: int, process: str = "one", generation: int = 1, **more: Any) -> None:
        fields: Fields = {
            "group": "g",
            "member": process,
            "generation": generation,
            "generation_after": generation,
        }
        self("commit", process, **fields, topic="t", offsets=[(0, offset)], **more)

    def committed(self, offset: int, **more: Any) -> None:
        self("committed", group="g", topic="t", offsets=[(0, offset)], **more)

    def end(self, name: str, *, is_commit: bool = True, **more: Any) -> None:
        fields: Fields = {"transaction": name, "is_commit": is_commit, "group": "copiers", "offsets": []}
        self("end", **(fields | more))

    @property
    def broken(self) -> set[str]:
        return {violation.invariant for violation in violations(self.operations)}
