"""A result that comes later, with a callback that runs at once.

An asyncio future runs its callbacks one loop turn later; on the path of every produce and fetch that turn matters.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import ClassVar, Generic, Self, TypeVar, cast

from headwater.errors import ErrorCode

T = TypeVar("T")
U = TypeVar("U")


class Fault(Exception):
    """In place of a result that a bug of ours kept from coming; `cause` is what was raised. It is no refusal: no
    handler takes it for an answer, and the connection whose request waits for the result is closed."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.cause = cause

    def kept(self) -> Self:
        """As `HeadwaterError.kept`."""
        return self.with_traceback(None)


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

    def fail(self, error: Exception) -> None:
        """A bug keeps the result from coming: its listener gets a `Fault` instead."""
        self.resolve(cast("T", Fault(error)))

    def then(self, callback: Callable[[T], None]) -> None:
        """Call back with the result (or a `Fault`), at once if it is there. A result has one listener at most."""
        assert self._callback is None, "a result has one listener"
        if self.is_done:
            callback(self._outcome)  # pyright: ignore[reportArgumentType]
        else:
            self._callback = callback

    def map(self, translate: Callable[[T], U], *, is_abandonable: bool = False) -> "Pending[U]":
        """A fault passes through, and an error that `translate` raises becomes one."""
        mapped: Pending[U] = Abandonable() if is_abandonable else Pending()

        def resolve(outcome: T) -> None:
            if isinstance(outcome, Fault):
                mapped.resolve(cast("U", outcome))
                return
            try:
                translated = translate(outcome)
            except Exception as error:
                mapped.fail(error)
                return
            mapped.resolve(translated)

        self.then(resolve)
        return mapped

    def abandon(self) -> None:
        """The client has gone, so that the result is not wanted any more."""

    async def wait(self) -> T:
        """A fault is raised."""
        outcome = self._outcome
        if not self.is_done:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self.then(lambda outcome: None if future.done() else future.set_result(outcome))
            outcome = await future
        if isinstance(outcome, Fault):
            raise outcome
        return outcome  # pyright: ignore[reportReturnType]


class Abandonable(Pending[T]):
    """A result that may be long in coming (a rebalance). The connection of a client that has left is not kept for it,
    and the result is then discarded."""

    __slots__ = ()

    is_abandonable = True


class PendingTask(Abandonable[T]):
    """The result of a coroutine, which is cancelled when its client has gone."""

    __slots__ = ("_task",)

    def __init__(self, coroutine: Coroutine[object, object, T]) -> None:
        super().__init__()
        self._task: asyncio.Task[T] | None = asyncio.get_running_loop().create_task(coroutine)
        self._task.add_done_callback(self._done)

    def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _done(self, task: asyncio.Task[T]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.resolve(task.result())
        elif isinstance(error, Exception):
            self.resolve(cast("T", error if isinstance(error, Fault) else Fault(error)))


async def result_of(outcome: Pending[T] | T) -> T:
    """The result, for callers that may know it without waiting (a refusal)."""
    return await cast("Pending[T]", outcome).wait() if isinstance(outcome, Pending) else outcome
