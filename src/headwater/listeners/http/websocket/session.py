"""One client of a WebSocket: who it is, what it has subscribed to, and what becomes of its commands."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Annotated, Any

import msgspec

from headwater.broker.access.guard import Guard
from headwater.broker.pending import Fault
from headwater.config.listeners import BASIC, BEARER
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.http.authentication import Identity
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.request import Request
from headwater.listeners.http.websocket import messages
from headwater.listeners.http.websocket.commands import OPERATIONS, READS, call, decoded
from headwater.listeners.http.websocket.messages import Command
from headwater.listeners.http.websocket.subscriptions import CREDIT_MAX, SubscribeParams, Subscription, open_source

logger = logging.getLogger(__name__)

LOGIN = "login"
_FAULT = "this is a fault of the broker; its log has more"


class LoginParams(msgspec.Struct, forbid_unknown_fields=True):
    """A name and a password, or a token."""

    username: str = ""
    password: str = ""
    token: str | None = None


class UnsubscribeParams(msgspec.Struct, forbid_unknown_fields=True):
    subscription: str


class CreditParams(msgspec.Struct, forbid_unknown_fields=True):
    subscription: str
    records: Annotated[int, msgspec.Meta(ge=1, le=CREDIT_MAX)]


class Session:
    def __init__(self, request: Request, send: Callable[[Sequence[bytes]], Awaitable[None]]) -> None:
        self._services = request.services
        self._broker = request.broker
        self._authentication = request.authentication
        self._certificate_principal = request.certificate_principal
        self._peer_host = request.peer_host
        self._send = send
        self._guard: Guard | None = None
        # When the client has to have logged in again, in ms since 1970; None: never.
        self.end_ms: int | None = None
        self._subscriptions: dict[str, tuple[Subscription, asyncio.Task[None]]] = {}
        self._subscription_count = 0
        # Commands whose answers may be large are done one after the other.
        self._reading = asyncio.Lock()
        if self._authentication.is_stranger(request):
            self._authentication.stranger_came(self._peer_host)
        else:
            self._guard = request.guard
            self.end_ms = self._authentication.session_end_ms(request.identity)

    @property
    def is_authenticated(self) -> bool:
        return self._guard is not None

    # -- commands

    async def answer(self, message: bytes, waits: Callable[[], None]) -> bool:
        """Do what a message asks for, and send the answer. `waits` is called where the command only waits, so that it
        may end with its client. Gives whether the client may go on."""
        command_id: str | int | None = None
        may_go_on = True
        try:
            command = messages.read_command(message)
            command_id = command.id
            if command.command == LOGIN:
                may_go_on = not self._authentication.schemes
                answer = messages.success(command, await self._log_in(command))
                may_go_on = True
            else:
                async with self._reading if command.command in READS else nullcontext():
                    await self._send([messages.success(command, await self._do(command, waits))])
                    return True
        except HeadwaterError as refusal:
            answer = messages.failure(command_id, refusal)
        except TimeoutError:
            refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT, "the time is over (headwater.http.request.timeout.ms)")
            answer = messages.failure(command_id, refusal)
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception as error:
            answer = messages.failure(command_id, self._fault(error))
        await self._send([answer])
        return may_go_on

    def _fault(self, error: Exception) -> Refusal:
        cause = error.cause if isinstance(error, Fault) else error
        logger.error("a command of %s cannot be answered", self._peer_host, exc_info=cause)
        self._broker.measurements.replies_failed.value += 1
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, _FAULT)

    async def _do(self, command: Command, waits: Callable[[], None]) -> bytes:
        guard = self._guard
        if guard is None:
            raise Rejection(401, "log in first (the command login)", code=ErrorCode.SASL_AUTHENTICATION_FAILED)
        name = command.command
        own = self._own(name)
        if own is None and name not in OPERATIONS:
            raise Rejection(404, f"there is no command {name[:80]!r}", code=ErrorCode.RESOURCE_NOT_FOUND)
        measured = self._broker.measurements.request(f"WebSocket {name}")
        measured.count += 1
        try:
            async with asyncio.timeout(self._services.config.headwater_http_request_timeout_ms / 1000):
                if own is not None:
                    return msgspec.json.encode(await own(command, guard))
                return await call(self._request(command, guard, waits), name, command.params)
        except HeadwaterError as refusal:
            measured.errors[refusal.code] += 1
            raise

    def _own(self, name: str) -> Callable[[Command, Guard], Awaitable[Any]] | None:
        match name:
            case "subscribe":
                return self._subscribe
            case "unsubscribe":
                return self._unsubscribe
            case "credit":
                return self._give_credit
            case _:
                return None

    def _request(self, command: Command, guard: Guard, waits: Callable[[], None]) -> Request:
        """What an operation of /v1 is given."""
        request = Request(self._services, self._peer_host, self._certificate_principal)
        request.guard = guard
        request.authentication = self._authentication
        request.is_complete = True
        request.abandonable = waits
        if command.idempotency_key is not None:
            request.headers["idempotency-key"] = command.idempotency_key
        return request

    # -- log-in

    async def _log_in(self, command: Command) -> bytes:
        if not self._authentication.schemes:
            raise Rejection(400, "clients of this listener do not log in (headwater.http.authentication)")
        params = decoded(command.params, LoginParams)
        if params.token is not None:
            scheme, credentials = BEARER, params.token
        else:
            scheme, credentials = BASIC, b64encode(f"{params.username}:{params.password}".encode()).decode()
        identity = await self._authentication.log_in(scheme, credentials, self._peer_host)
        known = self._guard
        if known is not None and known.principal != identity.guard.principal:
            raise Rejection(
                403, f"this session is that of {known.principal}", code=ErrorCode.SASL_AUTHENTICATION_FAILED
            )
        self._identified(identity)
        return msgspec.json.encode({"user": str(identity.guard.principal), "session_end_ms": self.end_ms})

    def _identified(self, identity: Identity) -> None:
        self.end_ms = self._authentication.session_end_ms(identity)
        if self._guard is None:
            self._authentication.stranger_left(self._peer_host)
            self._guard = identity.guard

    # -- subscriptions

    async def _subscribe(self, command: Command, guard: Guard) -> Any:
        params = decoded(command.params, SubscribeParams)
        count_max = self._services.config.headwater_http_websocket_subscriptions_max
        self._check_room(count_max, params.subscription)
        source = await open_source(self._broker, guard, params)
        # Others may have come meanwhile.
        self._check_room(count_max, params.subscription)
        name = params.subscription
        while name is None or (params.subscription is None and name in self._subscriptions):
            self._subscription_count += 1
            name = f"s{self._subscription_count}"
        subscription = Subscription(name, source, params.credit)
        answer = {"subscription": name, "positions": subscription.positions}
        task = asyncio.get_running_loop().create_task(self._push(subscription))
        self._subscriptions[name] = subscription, task
        return answer

    def _check_room(self, count_max: int, name: str | None) -> None:
        if name is not None and name in self._subscriptions:
            raise Rejection(409, f"there is a subscription {name!r} already", code=ErrorCode.DUPLICATE_RESOURCE)
        if len(self._subscriptions) >= count_max:
            raise Rejection(
                429,
                f"there are {count_max} subscriptions already (headwater.http.websocket.subscriptions.max)",
                code=ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            )

    async def _push(self, subscription: Subscription) -> None:
        with suppress(ConnectionResetError):
            refusal = await self._run(subscription)
            self._subscriptions.pop(subscription.name, None)
            await self._send([messages.ended(subscription.name, subscription.positions, refusal)])

    async def _run(self, subscription: Subscription) -> HeadwaterError:
        """Until it ends by itself, and why."""
        try:
            await subscription.run(self._send)
        except ConnectionResetError:
            raise
        except HeadwaterError as refusal:
            return refusal
        except Exception as error:
            return self._fault(error)

    async def _unsubscribe(self, command: Command, guard: Guard) -> Any:
        del guard
        name = decoded(command.params, UnsubscribeParams).subscription
        subscription, task = self._known(name)
        del self._subscriptions[name]
        task.cancel()
        await asyncio.wait([task])
        return {"subscription": name, "positions": subscription.positions}

    async def _give_credit(self, command: Command, guard: Guard) -> Any:
        del guard
        params = decoded(command.params, CreditParams)
        subscription, _ = self._known(params.subscription)
        subscription.add_credit(params.records)
        return {"subscription": params.subscription, "credit": subscription.credit}

    def _known(self, name: str) -> tuple[Subscription, asyncio.Task[None]]:
        found = self._subscriptions.get(name)
        if found is None:
            raise Rejection(404, f"there is no subscription {name[:80]!r}", code=ErrorCode.RESOURCE_NOT_FOUND)
        return found

    def end(self) -> None:
        """The connection has closed."""
        if self._guard is None:
            self._authentication.stranger_left(self._peer_host)
        for _, task in self._subscriptions.values():
            task.cancel()
        self._subscriptions.clear()
