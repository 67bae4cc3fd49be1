"""A result that comes later, handed on in the same instant.

An asyncio future calls back one loop turn later; on the path of every produce and fetch that turn is worth saving.
"""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Pending(Generic[T]):
    __slots__ = ("_callback", "_outcome", "is_done")

    # Whether it only waits, so that nothing is lost when nobody wants the result any more.
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
            # Not kept: whoever listens often holds this object, and such a circle would wait for the collector.
            callback(outcome)
        else:
            self._outcome = outcome

    def then(self, callback: Callable[[T], None]) -> None:
        """Calls back with the result, at once if it is there. One listener is all that a reply ever has."""
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
        """Nobody wants the result any more."""

    async def wait(self) -> T:
        if not self.is_done:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self.then(lambda outcome: None if future.done() else future.set_result(outcome))
            return await future
        return self._outcome  # pyright: ignore[reportReturnType]


class Abandonable(Pending[T]):
    """May be long in coming, and is no reason to keep the connection of a client that has left: it then comes to
    nobody."""

    __slots__ = ()

    is_abandonable = True
