"""I15: a delayed record never appears early, appears exactly once, and survives crashes; what was cancelled or aborted
never appears."""

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.histories.facts import AUDIT, Facts, Violation
from tests.faults.histories.recording import Operation

# Of a producer's and the broker's clock, which count milliseconds.
CLOCK_NS = 2e6


def appeared_wrongly(facts: Facts) -> Iterator[Violation]:
    scheduled = {each["value"]: each for each in facts.of("schedule")}
    if not scheduled:
        return
    seen: dict[str, dict[tuple[str, int, int], Operation]] = defaultdict(dict)
    for look in facts.ok("appear"):
        for offset, value in look["records"]:
            seen[value].setdefault((look["topic"], look["partition"], offset), look)
    decisions = {each["transaction"]: each for each in facts.of("decide")}
    for value, places in seen.items():
        looks = [*places.values()]
        one = scheduled.get(value)
        if one is None:
            yield Violation("I15", f"{value} appeared, and nobody sent it", looks)
            continue
        if len(places) > 1:
            yield Violation("I15", f"{value} appeared twice", [one, *looks])
        begin = one if one["transaction"] is None else decisions.get(one["transaction"], one)
        if looks[0].ended_ns + CLOCK_NS < begin.begun_ns + one["delay_ms"] * 1e6:
            yield Violation("I15", f"{value} appeared early", [one, looks[0]])
        decided = decisions.get(one["transaction"])
        if one["transaction"] is not None and (decided is None or (decided.is_ok and not decided["is_commit"])):
            yield Violation("I15", f"{value} was aborted and appeared", [one, looks[0]])
    cancelled: dict[str, Operation] = {each["value"]: each for each in facts.of("cancel")}
    for value, cancel in cancelled.items():
        if cancel.is_ok and value in seen:
            yield Violation("I15", f"{value} was cancelled and appeared", [cancel, *seen[value].values()])
    audited = {value for look in facts.ok("appear") if look.process.startswith(AUDIT) for _, value in look["records"]}
    for value, one in scheduled.items():
        decided = decisions.get(one["transaction"])
        is_due = one.is_ok and (
            one["transaction"] is None or (decided is not None and decided.is_ok and decided["is_commit"])
        )
        cancel = cancelled.get(value)
        if is_due and value not in audited and (cancel is None or cancel.outcome == "fail"):
            yield Violation("I15", f"{value} never appeared", [one])
