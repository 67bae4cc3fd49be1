"""A result that comes later, with a callback that runs at once.

An asyncio future runs its callbacks one loop turn later; on the path of every produce and fetch that turn matters.
"""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")


class Pending(Generic[T]):
    __slots__ = ("_callback", "_outcome", "is_done")

    # Whether the request only waits, so that it may be cancelled when its client has gone.
    is_abandonable: ClassVar[bool] = False

    def __init__(self) -> None:
        self.is_done = False
        self._outcome: T | None = None
        self._callback: Callable[[T], None] | None = None

    def resolve(self, outcome: T) -> None:
        assert not self.is_done, "a result is given once"
        self.is_done = True
        callback, self._callback = self._callback, None
        if callback is not None:
            # The outcome is not stored: the callback's owner often holds this object, and the reference cycle would
            # stay in memory until the garbage collector runs.
            callback(outcome)
        else:
            self._outcome = outcome

    def then(self, callback: Callable[[T], None]) -> None:
        """Call back with the result, at once if it is there. A result has one listener at most."""
        assert self._callback is None, "a result has one listener"
        if self.is_done:
            callback(self._outcome)  # pyright: ignore[reportArgumentType]
        else:
            self._callback = callback

    def map(self, translate: Callable[[T], U], *, is_abandonable: bool = False) -> "Pending[U]":
        mapped: Pending[U] = Abandonable() if is_abandonable else Pending()
        self.then(lambda outcome: mapped.resolve(translate(outcome)))
        return mapped

    def abandon(self) -> None:
        """The client has gone, so that the result is not wanted any more."""

    async def wait(self) -> T:
        if not self.is_done:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self.then(lambda outcome: None if future.done() else future.set_result(outcome))
            return await future
        return self._outcome  # pyright: ignore[reportReturnType]


class Abandonable(Pending[T]):
    """A result that may be long in coming (a rebalance). The connection of a client that has left is not kept for it,
    and the result is then discarded."""

    __slots__ = ()

    is_abandonable = True


async def result_of(outcome: Pending[T] | T) -> T:
    """The result, for callers that may know it without waiting (a refusal)."""
    return await cast("Pending[T]", outcome).wait() if isinstance(outcome, Pending) else outcome
