"""One client that speaks Kafka's protocol: from a frame to its handler and back (decode, call, encode)."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from functools import cached_property
from inspect import iscoroutine
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headwater.broker.broker import Broker
from headwater.broker.measurements import NOT_TIMED, TIMED_EVERY, RequestMeasurement
from headwater.broker.pending import Pending
from headwater.config.broker import BrokerConfig
from headwater.errors import ProtocolError
from headwater.listeners.kafka.api_table import API_VERSIONS_KEY, BY_KEY, FLEXIBLE_FROM, Api
from headwater.listeners.kafka.apis.cluster import api_versions
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.fetch_sessions import FetchSessions
from headwater.listeners.kafka.outcome import HangUp, NoReply, Reply
from headwater.listeners.kafka.reply_templates import ReplyTemplates
from headwater.listeners.tcp.connection import Connection, Slot
from headwater.listeners.tcp.output import Part
from headwater.listeners.tcp.request_memory import RequestMemory
from headwater.protocol.wire.codec import Response, decode, encode_parts
from headwater.protocol.wire.error_scan import nonzero_errors
from headwater.protocol.wire.framing import FrameReader
from headwater.protocol.wire.headers import read_request_header
from headwater.security.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from headwater.listeners.kafka.sasl.measurements import SaslMeasurements
    from headwater.listeners.kafka.sasl.session import SaslSession

logger = logging.getLogger(__name__)

_frame_head = Struct(">ii")
# The end of a response header that has tagged fields.
_NO_TAGS = bytes(1)
_write_size = Struct(">i").pack_into


class ServedApi(NamedTuple):
    """An API, and its measurements in this broker."""

    api: Api
    measured: RequestMeasurement


class KafkaServices:
    """What all Kafka listeners of a node share."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.apis = {key: ServedApi(api, broker.measurements.request(api.name)) for key, api in BY_KEY.items()}
        self.fetch_sessions = FetchSessions(broker.config.max_incremental_fetch_session_cache_slots, broker.clock)
        self.reply_templates = ReplyTemplates()
        # Requests that change something run to their end, even if their client has gone away.
        self._tasks: set[asyncio.Task[None]] = set()

    @cached_property
    def sasl_measurements(self) -> "SaslMeasurements":
        from headwater.listeners.kafka.sasl.measurements import SaslMeasurements  # noqa: PLC0415  late: only for SASL

        return SaslMeasurements(self.broker.measurements.metrics)

    def run(self, reply: Coroutine[Any, Any, None], connection: Connection) -> None:
        """Run what fills a slot later; a bug in it ends the connection."""
        task = asyncio.ensure_future(self._guarded(reply, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, reply: Coroutine[Any, Any, None], connection: Connection) -> None:
        try:
            await reply
        except Exception:
            logger.exception("a request of %s:%s failed, its connection is closed", *connection.peer[:2])
            connection.close()


class KafkaConversation:
    __slots__ = (
        "_connection",
        "_contexts",
        "_listener",
        "_principal",
        "_services",
        "_session",
        "frames",
        "requests_max",
    )

    def __init__(
        self,
        services: KafkaServices,
        listener: str,
        connection: Connection,
        memory: RequestMemory,
        session: "SaslSession | None" = None,
    ) -> None:
        config = services.broker.config
        self.frames = FrameReader(
            memory,
            frame_bytes_max=config.socket_request_max_bytes,
            idle_bytes=config.headwater_socket_buffer_idle_bytes,
        )
        self._services = services
        self._listener = listener
        self._connection = connection
        self._session = session
        self._principal = ANONYMOUS
        # By the API version that the client speaks.
        self._contexts: dict[int, Context] = {}
        self.requests_max = config.headwater_connection_requests_max

    def use_config(self, config: BrokerConfig) -> None:
        self.frames.frame_bytes_max = config.socket_request_max_bytes
        self.requests_max = config.headwater_connection_requests_max

    def authenticated(self, principal: Principal) -> None:
        """The client has proved who it is."""
        self._principal = principal
        self._contexts.clear()

    def end(self) -> None:
        if self._session is not None:
            self._session.end()

    def serve(self, frame: memoryview, slot: Slot) -> None:
        header = read_request_header(frame, FLEXIBLE_FROM)
        served = self._services.apis.get(header.api_key)
        if served is None:
            raise ProtocolError(f"API key {header.api_key} is not served here")
        api, measured = served
        version = header.api_version
        if not api.first_version <= version <= api.last_version:
            if header.api_key == API_VERSIONS_KEY:
                # A newer client sends its newest version first; it learns ours from a response in version 0.
                _reply(slot, api_versions.unsupported(), measured, NOT_TIMED, header.correlation_id, 0, False)
                return
            raise ProtocolError(
                f"{api.request.__name__} version {version} is not served, only "
                f"{api.first_version} to {api.last_version}"
            )
        request = decode(api.request, version, frame, header.body_position, exact=False)
        context = self._contexts.get(version)
        if context is None or context.client_id != header.client_id:
            context = self._new_context(version, header.client_id)
        flexible_header = version >= api.flexible_from and header.api_key != API_VERSIONS_KEY
        correlation_id = header.correlation_id
        measured.count += 1
        began_us = NOT_TIMED if measured.count % TIMED_EVERY else measured.now_us()
        outcome = api.handle(request, context)
        if isinstance(outcome, Pending):
            if outcome.is_abandonable:
                slot.abandon = outcome.abandon
            outcome.then(
                lambda reply: _reply(slot, reply, measured, began_us, correlation_id, version, flexible_header)
            )
        elif iscoroutine(outcome):
            awaitable = cast("Awaitable[Response]", outcome)
            self._services.run(
                _reply_later(awaitable, slot, measured, began_us, correlation_id, version, flexible_header),
                self._connection,
            )
        else:
            _reply(slot, cast("Reply", outcome), measured, began_us, correlation_id, version, flexible_header)

    def _new_context(self, version: int, client_id: str | None) -> Context:
        services = self._services
        context = self._contexts[version] = Context(
            services.broker,
            services.fetch_sessions,
            services.reply_templates,
            version,
            client_id,
            self._connection.peer_host,
            self._listener,
            self._principal,
            self._session,
        )
        return context


async def _reply_later(
    outcome: Awaitable[Response],
    slot: Slot,
    measured: RequestMeasurement,
    began_us: int,
    correlation_id: int,
    version: int,
    flexible_header: bool,
) -> None:
    _reply(slot, await outcome, measured, began_us, correlation_id, version, flexible_header)


def _reply(
    slot: Slot,
    reply: Reply,
    measured: RequestMeasurement,
    began_us: int,
    correlation_id: int,
    version: int,
    flexible_header: bool,
) -> None:
    if began_us:
        measured.end(began_us)
    if isinstance(reply, bytearray):
        # The handler has encoded its body.
        head = _frame_head.pack(len(reply) + (5 if flexible_header else 4), correlation_id)
        slot.fill([bytearray(b"".join((head, _NO_TAGS, reply) if flexible_header else (head, reply)))])
        return
    if isinstance(reply, NoReply):
        slot.fill([])
        return
    if isinstance(reply, HangUp):
        slot.hang_up(reply.reason)
        return
    errors = nonzero_errors(reply)
    if errors:
        measured.errors.update(errors)
    try:
        out = bytearray(_frame_head.pack(0, correlation_id))
        if flexible_header:
            out += _NO_TAGS
        parts = cast("list[Part]", encode_parts(reply, version, out))
        _write_size(out, 0, sum(map(len, parts)) - 4)
    except Exception:
        # Do not raise: the caller may be resolving the results of other clients, too.
        logger.exception("a %s cannot be encoded", type(reply).__name__)
        slot.hang_up("its reply could not be made")
        return
    slot.fill(parts)
