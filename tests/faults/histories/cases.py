"""The loads of these tests: their topics and clients, and a broker with a planted bug."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tests.faults.histories.load import SETTINGS, Load
from tests.support.broker.processes import PLAIN, BrokerProcess

# How many operations of each kind must succeed before a load has shown anything.
ENOUGH = {
    "producer": ("send", 200),
    "trickle": ("send", 60),
    "copier": ("end", 8),
    "classic": ("poll", 20),
    "consumer": ("poll", 20),
    "fetcher": ("fetch", 60),
    "zombie": ("commit", 6),
}
MEMBERS = 2
BACKLOG = 60


class FaultyBroker(BrokerProcess):
    def __init__(self, data_directory: Path, bug: str, settings: Mapping[str, str] = SETTINGS) -> None:
        super().__init__(data_directory, settings)
        self._bug = bug

    def start(self, launcher: Sequence[str] = PLAIN) -> None:
        del launcher
        super().start(("tests.faults.histories.faulty_broker", "--bug", self._bug))


def start(load: Load, roles: Collection[str], *, source_partitions: int = 2) -> None:
    source, target = load.topic("source", source_partitions), load.topic("target", 3)
    for role in roles:
        match role:
            case "copier":
                load.start(
                    role,
                    source,
                    group="copiers",
                    protocol="classic",
                    target=target,
                    transactional_id="copier",
                    committed_only=True,
                )
            case "classic":
                for _ in range(MEMBERS):
                    load.start("member", source, group=role, protocol=role)
            case "consumer":
                for _ in range(MEMBERS):
                    load.start("member", target, group=role, protocol=role, committed_only=True)
            case "trickle":
                load.start("producer", source, at_a_time=1, per_second=60)
            case "producer":
                load.start(role, source)
                # Readers find some batches from the start.
                load.wait_for_more("send", BACKLOG)
            case _:
                load.start(role, source, target=target)


def wait(load: Load, roles: Collection[str]) -> None:
    """Wait until all clients have done enough for the checks to be meaningful."""
    for role in roles:
        load.wait_for_more(*ENOUGH[role])
