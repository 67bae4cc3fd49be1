"""Bounds on what a schema may cost. A document comes from a client, so each part of the work on it is counted."""

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

from headwater.registry.errors import InvalidSchema

P = ParamSpec("P")
T = TypeVar("T")


# So many steps between two calls of `Limits.pause`: about a millisecond of work.
_STEPS_PER_PAUSE = 256


def no_pause() -> None:
    """Nobody else waits for this thread."""


class Limits(NamedTuple):
    # Of one document.
    bytes_max: int = 1 << 20
    # Nested types.
    depth_max: int = 64
    # Types in a document and in all that it refers to.
    types_max: int = 20_000
    # Pairs of types that one comparison may look at.
    comparisons_max: int = 200_000
    # Called every now and then, so that work in a thread leaves the interpreter to others.
    pause: Callable[[], None] = no_pause


DEFAULT_LIMITS = Limits()


class Budget:
    """Counts the types of one schema while it is parsed."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._types = 0

    def take(self, depth: int) -> None:
        """One more type, inside `depth` others."""
        if depth > self.limits.depth_max:
            raise InvalidSchema(
                f"types are nested more than {self.limits.depth_max} deep (headwater.schemas.depth.max)"
            )
        self._types += 1
        if self._types % _STEPS_PER_PAUSE == 0:
            self.limits.pause()
        if self._types > self.limits.types_max:
            raise InvalidSchema(f"there are more than {self.limits.types_max} types (headwater.schemas.types.max)")


class ComparisonBudget:
    """Counts the pairs of types that a comparison looks at."""

    def __init__(self, limits: Limits) -> None:
        self._left = self._max = limits.comparisons_max
        self._pause = limits.pause

    def take(self, count: int = 1) -> None:
        self._left -= count
        if self._left % _STEPS_PER_PAUSE == 0:
            self._pause()
        if self._left < 0:
            raise InvalidSchema(
                f"comparing the schemas takes more than {self._max} steps (headwater.schemas.comparisons.max)"
            )


def bounded(work: Callable[P, T]) -> Callable[P, T]:
    """Decorator: types that refer to each other by name may nest deeper than any document does, up to Python's limit of
    recursion, which is then an error of the schema."""

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except RecursionError:
            raise InvalidSchema("types refer to each other too deeply (headwater.schemas.depth.max)") from None

    return run
