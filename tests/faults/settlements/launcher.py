"""A broker that has a bug, or kills itself: `python -m tests.faults.settlements.launcher bug NAME serve …`, or
`… die NAME N serve …`, when it reaches the failpoint of that name for the N-th time."""

import os
import signal
import sys
import threading
from typing import Any

from headwater.cli.main import main
from headwater.coordination.shares.events import StateBatch
from headwater.coordination.shares.terms import DeliveryState
from headwater.coordination.shares.transactional_share import TransactionalShare
from tests.faults.kills.failpoints import Failpoint
from tests.faults.kills.passages import Passage, watch_disk

# The last number is about how often the broker passes in a second.
FAILPOINTS = {
    "mid-settlement": Failpoint("write", "amid", "__share_group_state-*/*.log", 20),
    "after-settlement": Failpoint("write", "after", "__share_group_state-*/*.log", 20),
    "before-the-answer": Failpoint("sync", "after", "__share_group_state-*/*.log", 20),
    "mid-decision": Failpoint("write", "amid", "__transaction_state-*/*.log", 20),
    "after-decision": Failpoint("sync", "after", "__transaction_state-*/*.log", 20),
    "before-the-marker-of-the-invoices": Failpoint("mark", "before", "invoices-*/*.log", 10),
    "after-the-marker-of-the-invoices": Failpoint("mark", "after", "invoices-*/*.log", 10),
}


def die_at(name: str, number: int) -> None:
    passages = 0
    # Threads reach failpoints too, for flushes.
    lock = threading.Lock()

    def watch(passage: Passage) -> None:
        nonlocal passages
        if FAILPOINTS[name].is_at(passage):
            with lock:
                passages += 1
                if passages == number:
                    os.kill(os.getpid(), signal.SIGKILL)

    watch_disk(watch)


def accept_at_once() -> None:
    """What a transaction accepts is accepted before it is committed."""
    decide = TransactionalShare.decide_settle_in_transaction

    def at_once(event: Any) -> Any:
        accepted = [
            StateBatch(first, last, DeliveryState.ACKNOWLEDGED, count)
            for first, last, count, _ in event.pending.batches
        ]
        return event._replace(batches=accepted, pending=None)

    def decided(self: TransactionalShare, *arguments: Any) -> Any:
        decision = decide(self, *arguments)
        return decision._replace(events=[at_once(event) for event in decision.events])

    TransactionalShare.decide_settle_in_transaction = decided  # type: ignore[method-assign]


def give_back_what_is_committed() -> None:
    decide = TransactionalShare.decide_end_transaction

    def decided(self: TransactionalShare, *arguments: Any, is_committed: bool) -> Any:
        return decide(self, *arguments, is_committed=False)

    TransactionalShare.decide_end_transaction = decided  # type: ignore[method-assign]


BUGS = {each.__name__: each for each in (accept_at_once, give_back_what_is_committed)}

if __name__ == "__main__":
    kind, name = sys.argv[1:3]
    if kind == "bug":
        BUGS[name]()
        sys.argv[1:] = sys.argv[3:]
    else:
        die_at(name, int(sys.argv[3]))
        sys.argv[1:] = sys.argv[4:]
    main()
