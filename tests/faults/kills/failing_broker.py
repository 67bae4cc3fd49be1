"""`python -m tests.faults.kills.failing_broker NAME N serve …`: a broker that kills itself when it reaches the
failpoint of that name for the N-th time."""

import os
import signal
import sys
import threading

from headwater.cli.main import main
from tests.faults.kills.failpoints import FAILPOINTS
from tests.faults.kills.passages import Passage, watch_disk
from tests.faults.queues.failpoints import QUEUE_FAILPOINTS


def die_at(name: str, number: int) -> None:
    failpoint = {**FAILPOINTS, **QUEUE_FAILPOINTS}[name]
    passages = 0
    # Threads reach failpoints too, for flushes and clean-ups.
    lock = threading.Lock()

    def watch(passage: Passage) -> None:
        nonlocal passages
        if failpoint.is_at(passage):
            with lock:
                passages += 1
                if passages == number:
                    os.kill(os.getpid(), signal.SIGKILL)

    watch_disk(watch)


if __name__ == "__main__":
    _, name, number, *sys.argv[1:] = sys.argv
    die_at(name, int(number))
    main()
