"""Warnings that a stranger can cause: so many of a kind between two sweeps, then only how many more there were.

Without a limit anybody who can reach a port could fill the disk with them.
"""

from collections import Counter
from logging import Logger

LOGGED_MAX = 20


class FailureLog:
    __slots__ = ("_counts",)

    def __init__(self) -> None:
        # Since the last sweep, by logger and kind.
        self._counts: Counter[tuple[Logger, str]] = Counter()

    def warn(self, logger: Logger, kind: str, message: str, *arguments: object) -> None:
        """`kind` says in the plural what failed."""
        self._counts[logger, kind] += 1
        if self._counts[logger, kind] <= LOGGED_MAX:
            logger.warning(message, *arguments)

    def sweep(self) -> None:
        """Called about once a second."""
        for (logger, kind), count in self._counts.items():
            if count > LOGGED_MAX:
                logger.warning("%d more %s in the last second are not logged one by one", count - LOGGED_MAX, kind)
        self._counts.clear()
