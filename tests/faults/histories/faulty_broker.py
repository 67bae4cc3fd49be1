"""A broker with one bug: `python -m tests.faults.histories.faulty_broker --bug NAME serve <its arguments>`."""

import sys

from headwater.cli.main import run
from tests.faults.histories.planted import BUGS
from tests.faults.queues.planted import QUEUE_BUGS


def main() -> None:
    option, name, *arguments = sys.argv[1:]
    assert option == "--bug"
    {**BUGS, **QUEUE_BUGS}[name].plant()
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
