"""Idempotency keys: a request that is repeated under the same key gets the answer of the first, and does nothing.

In memory, of this process: a key is forgotten after ten minutes, when there are too many, and at a restart.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import NamedTuple

from headwater.clock import Clock
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response

KEY_LENGTH_MAX = 255
KEYS_MAX = 10_000
# An answer to a large request has as many entries; a larger one is given again only while it is new.
BYTES_MAX = 32 << 20
LIFETIME_MS = 600_000


class _Remembered(NamedTuple):
    digest: bytes
    at_ms: int
    answer: "asyncio.Future[Response]"


class IdempotencyKeys:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By client, operation and key. The oldest come first.
        self._remembered: OrderedDict[tuple[str, str, str], _Remembered] = OrderedDict()
        self._bytes = 0

    async def once(self, request: Request, body: bytes, answer: Callable[[], Awaitable[Response]]) -> Response:
        """The answer, made at most once for each key of a client. An answer that is raised is not remembered."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return await answer()
        if not 0 < len(key) <= KEY_LENGTH_MAX:
            raise Rejection(400, f"an Idempotency-Key has 1 to {KEY_LENGTH_MAX} characters")
        now_ms = self._clock.monotonic_ms()
        self._forget(now_ms)
        name = str(request.guard.principal), "/".join(request.segments), key
        digest = sha256(body).digest()
        known = self._remembered.get(name)
        if known is not None:
            if known.digest != digest:
                raise Rejection(422, "the Idempotency-Key was used for another request")
            return await asyncio.shield(known.answer)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        # Nobody need have waited for a failure.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._remembered[name] = _Remembered(digest, now_ms, future)
        try:
            made = await answer()
        except BaseException as error:
            del self._remembered[name]
            if isinstance(error, Exception):
                future.set_exception(error)
            else:
                future.set_exception(Rejection(503, "the first request under this Idempotency-Key did not end"))
            raise
        future.set_result(made)
        self._bytes += len(made.body)
        return made

    def _forget(self, now_ms: int) -> None:
        while self._remembered:
            name, oldest = next(iter(self._remembered.items()))
            is_full = len(self._remembered) >= KEYS_MAX or self._bytes > BYTES_MAX
            if not oldest.answer.done() or not (is_full or now_ms - oldest.at_ms >= LIFETIME_MS):
                return
            del self._remembered[name]
            self._bytes -= len(oldest.answer.result().body)
