"""One member of a group in a process of its own: reads, commits what it read, and writes down all that happens to it.

Started as `python -m tests.support.groups.member '<options as JSON>'`. It writes one line of JSON for each event
(`history.py` says which), leaves its group politely when it reads a line, and is gone when whoever started it is.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from tests.support.groups.clients import CLIENTS, Client, Options


class Member:
    def __init__(self, options: Options) -> None:
        # Some clients call back from a thread of their own.
        self._lock = threading.RLock()
        self._is_leaving = False
        self._session_ns = options["session_timeout_ms"] * 1_000_000
        self._awake_ns = time.monotonic_ns()
        self._has_overslept = False
        self._owned: set[int] = set()
        self._generation = -1
        self._uncommitted: dict[int, int] = {}
        self._client: Client = CLIENTS[options["client"]](options, self)

    def run(self, is_told_to_leave: threading.Event) -> None:
        while not is_told_to_leave.is_set():
            self._stay_awake()
            self._process(self._client.poll())
            self._commit()
        # Nothing is processed any more, and the broker does not know it yet.
        with self._lock:
            self._is_leaving = True
            self.revoked(sorted(self._owned))
        self._client.close()

    def _stay_awake(self) -> None:
        """A member suspended for a session time-out is out of its group, even if its client has yet to learn it."""
        with self._lock:
            now_ns = time.monotonic_ns()
            self._has_overslept |= now_ns - self._awake_ns > self._session_ns
            self._awake_ns = now_ns

    # -- what the client tells

    def assigned(self, partitions: Sequence[int]) -> None:
        with self._lock:
            self._stay_awake()
            self._has_overslept = False
            self._see_generation()
            # A rebalance may end while the client closes; a leaving member ignores its assignment.
            if not self._is_leaving:
                self._owned.update(partitions)
                self._write("assigned", sorted(partitions))

    def revoked(self, partitions: Iterable[int]) -> None:
        """A client without a generation has been put out of its group, whatever its library calls that."""
        with self._lock:
            self._stay_awake()
            if given_up := self._give_up(partitions):
                is_in = self._see_generation() and not self._has_overslept
                self._write("revoked" if is_in else "lost", given_up)

    def lost(self, partitions: Iterable[int]) -> None:
        with self._lock:
            if given_up := self._give_up(partitions):
                self._write("lost", given_up)

    def _see_generation(self) -> bool:
        """Whether the client has one. It counts from its assignment on: the broker writes down no classic generation
        that has only been joined, and gives its number to another if it ends meanwhile."""
        generation = self._client.generation()
        if generation > 0:
            self._generation = generation
        return generation > 0

    def _give_up(self, partitions: Iterable[int]) -> list[int]:
        given_up = sorted(self._owned.intersection(partitions))
        self._owned.difference_update(given_up)
        for partition in given_up:
            self._uncommitted.pop(partition, None)
        return given_up

    # -- work

    def _process(self, batches: Mapping[int, Sequence[int]]) -> None:
        ranges: list[tuple[int, int, int]] = []
        with self._lock:
            for partition, offsets in batches.items():
                # Some clients still hand out what they fetched before they gave a partition up.
                if partition in self._owned:
                    ranges += [(partition, first, last) for first, last in _ranges(offsets)]
                    self._uncommitted[partition] = offsets[-1] + 1
            if ranges:
                self._write("processed", ranges)

    def _commit(self) -> None:
        with self._lock:
            committing = dict(self._uncommitted)
        if not committing:
            return
        refusal = self._client.commit(committing)
        if refusal is not None:
            self._write("refused", refusal)
            return
        self._write("committed", list(committing.items()))
        for partition, offset in committing.items():
            if self._uncommitted.get(partition) == offset:
                del self._uncommitted[partition]

    def _write(self, event: str, *fields: object) -> None:
        # A member removed from its group still acts in its last generation.
        with self._lock:
            sys.stdout.write(json.dumps([event, time.monotonic_ns(), self._generation, *fields]) + "\n")
            sys.stdout.flush()


def _ranges(offsets: Sequence[int]) -> list[tuple[int, int]]:
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        return [(offsets[0], offsets[-1])]
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    return ranges


def main() -> None:
    is_told_to_leave = threading.Event()

    def listen() -> None:
        if not sys.stdin.readline():
            os._exit(1)
        is_told_to_leave.set()

    threading.Thread(target=listen, daemon=True).start()
    Member(json.loads(sys.argv[1])).run(is_told_to_leave)


if __name__ == "__main__":
    main()
