"""One client in a process of its own: `python -m tests.faults.histories.clients.program '<options as JSON>'`.

After it reads a line it stops and has recorded all events. It ends with the process that started it.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.faults.histories.clients import copier, fetcher, member, producer, zombie
from tests.faults.histories.clients.options import Options
from tests.faults.histories.recording import Recorder
from tests.faults.queues import delayer, sharer

ROLES: Mapping[str, Callable[[Options, Recorder, threading.Event], None]] = {
    "producer": producer.run,
    "copier": copier.run,
    "member": member.run,
    "fetcher": fetcher.run,
    "zombie": zombie.run,
    "sharer": sharer.run,
    "delayer": delayer.run,
    "watcher": delayer.watch,
}


def main() -> None:
    options: Options = json.loads(sys.argv[1])
    is_told_to_stop = threading.Event()

    def listen() -> None:
        if not sys.stdin.readline():
            os._exit(1)
        is_told_to_stop.set()

    threading.Thread(target=listen, daemon=True).start()
    recorder = Recorder(Path(options["directory"]), options["name"])
    ROLES[options["role"]](options, recorder, is_told_to_stop)
    recorder.close()


if __name__ == "__main__":
    main()
