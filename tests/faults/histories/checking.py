"""All invariants over one history."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from tests.faults.histories.facts import Facts, Violation
from tests.faults.histories.group_checks import committed_wrongly, owned_twice, polled_twice
from tests.faults.histories.liveness_checks import LIMIT_S, stuck
from tests.faults.histories.log_checks import duplicated, lost, moved_back, phantoms, reordered, sparse, unstable
from tests.faults.histories.recording import Operation
from tests.faults.histories.transaction_checks import torn
from tests.faults.queues.delay_checks import appeared_wrongly
from tests.faults.queues.share_checks import ended_wrongly

Check = Callable[[Facts], Iterator[Violation]]
CHECKS: Sequence[Check] = (
    lost,
    unstable,
    duplicated,
    reordered,
    phantoms,
    polled_twice,
    sparse,
    torn,
    moved_back,
    committed_wrongly,
    owned_twice,
    ended_wrongly,
    appeared_wrongly,
)
# One bug breaks a promise for many records; the first few violations are enough.
EXAMPLES_MAX = 5


def violations(operations: Iterable[Operation], *, liveness_limit_s: float = LIMIT_S) -> list[Violation]:
    facts = Facts(operations)
    found = [violation for check in CHECKS for violation in islice(check(facts), EXAMPLES_MAX)]
    return [*found, *islice(stuck(facts, liveness_limit_s), EXAMPLES_MAX)]
