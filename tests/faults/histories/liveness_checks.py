"""I16: once all faults have ended, every client makes progress within a minute."""

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.histories.facts import AUDIT, Facts, Violation
from tests.faults.histories.recording import Operation

LIMIT_S = 60.0

_WORK = ("send", "end", "fetch", "poll", "commit", "committed", "drain")


def stuck(facts: Facts, limit_s: float = LIMIT_S) -> Iterator[Violation]:
    for died in facts.of("died"):
        yield Violation("I16", f"{died['client']} ended by itself, with code {died['code']}", [died])
    for heal in facts.of("heal"):
        # Killed clients do not wait for progress, and the audit starts only when all others are done.
        passive = {each["client"] for each in facts.of("gone") if each.begun_ns < heal.begun_ns} | {AUDIT}
        deadline_ns = heal.begun_ns + limit_s * 1e9
        asked: dict[tuple[str, str], list[Operation]] = defaultdict(list)
        for operation in facts.operations:
            if operation.kind in _WORK and operation.process not in passive and operation.ended_ns > heal.begun_ns:
                asked[operation.process, operation.kind].append(operation)
        for (process, kind), operations in asked.items():
            # Operations given up before the faults ended do not count.
            pending = [each for each in operations if each.is_ok or each.begun_ns > heal.begun_ns]
            if pending and not any(each.is_ok and each.ended_ns <= deadline_ns for each in pending):
                text = f"no {kind} of {process} came through within {limit_s:g} s"
                yield Violation("I16", text, [heal, operations[0]])
