"""One client that speaks Kafka's protocol: from a frame to its handler and back (decode, call, encode)."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property, partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headwater.broker.broker import Broker
from headwater.broker.measurements import NOT_TIMED, TIMED_EVERY, RequestMeasurement
from headwater.broker.pending import Fault, Pending
from headwater.config.broker import BrokerConfig
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ProtocolError
from headwater.ids import TopicId
from headwater.listeners.kafka.api_table import API_VERSIONS_KEY, BY_KEY, FLEXIBLE_FROM, Handler, load_apis
from headwater.listeners.kafka.apis.cluster import api_versions
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.fetch_sessions import FetchSessions
from headwater.listeners.kafka.outcome import HangUp, NoReply, Reply
from headwater.listeners.kafka.reply_templates import ReplyTemplates
from headwater.listeners.kafka.share_sessions import ConnectionLink, ShareSession, ShareSessions
from headwater.listeners.tcp.connection import Connection, Slot
from headwater.listeners.tcp.request_memory import RequestMemory
from headwater.protocol.wire.codec import (
    Request,
    Response,
    nonzero_errors,
    read_request_header,
    reader_of,
    reply_frame_parts,
    write_correlation_id,
)
from headwater.protocol.wire.framing import FrameReader
from headwater.security.principals import Principal

if TYPE_CHECKING:
    from headwater.listeners.kafka.sasl.measurements import SaslMeasurements
    from headwater.listeners.kafka.sasl.session import SaslSession

_NO_ANSWERS = (HangUp, Fault)


class ServedVersion(NamedTuple):
    """One version of an API as this broker serves it."""

    read: Callable[[memoryview, int, bool], Request]
    handle: Handler
    version: int
    has_tagged_header: bool
    measured: RequestMeasurement


class KafkaServices:
    """What all Kafka listeners of a node share."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        load_apis(with_security=broker.access.is_enforced or bool(broker.config.mechanisms_in_use))
        # By API key and version, each added when the first client uses it.
        self.served: dict[tuple[int, int], ServedVersion] = {}
        self.fetch_sessions = FetchSessions(broker.config.max_incremental_fetch_session_cache_slots, broker.clock)
        self.share_sessions = ShareSessions(broker.config.group_share_max_share_sessions, self._give_back)
        self.reply_templates = ReplyTemplates()
        # Requests that change something run to their end, even if their client has gone away.
        self._tasks: set[asyncio.Task[None]] = set()

    def _give_back(self, session: ShareSession) -> None:
        """The member's session has ended: others may have what it holds."""
        group_id = session.group_id
        share_ids = [SharePartitionId(group_id, TopicId(topic_id), index) for topic_id, index in session.partitions]
        self.broker.shares.release_all(share_ids, session.member_id)

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
        except Exception as error:
            connection.fail(error.cause if isinstance(error, Fault) else error)

    def serve_version(self, key: int, version: int) -> ServedVersion:
        """Add a version of an API. Raises ProtocolError if it is not served."""
        api = BY_KEY.get(key)
        if api is None:
            from headwater.listeners.kafka.api_names import api_name  # noqa: PLC0415 (only a refusal needs it)

            raise ProtocolError(f"{api_name(key)} is not served here")
        if not api.first_version <= version <= api.last_version:
            raise ProtocolError(
                f"{api.name} version {version} is not served, only {api.first_version} to {api.last_version}"
            )
        request, handle = api.load()
        served = self.served[key, version] = ServedVersion(
            reader_of(request, version),
            handle,
            version,
            version >= api.flexible_from and key != API_VERSIONS_KEY,
            self.broker.measurements.request(api.name),
        )
        return served


class KafkaConversation:
    __slots__ = (
        "_connection",
        "_contexts",
        "_guard",
        "_link",
        "_listener",
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
        self._link = ConnectionLink()
        self._connection = connection
        self._session = session
        self._guard = services.broker.access.guard(connection.certificate_principal, connection.peer_host)
        # By the API version that the client speaks.
        self._contexts: dict[int, Context] = {}
        self.requests_max = config.headwater_connection_requests_max

    def use_config(self, config: BrokerConfig) -> None:
        self.frames.frame_bytes_max = config.socket_request_max_bytes
        self.requests_max = config.headwater_connection_requests_max

    def authenticated(self, principal: Principal) -> None:
        """The client has proved who it is."""
        self._guard = self._services.broker.access.guard(principal, self._connection.peer_host)
        self._contexts.clear()

    def end(self) -> None:
        if self._session is not None:
            self._session.end()
        if self._link.on_end is not None:
            self._link.on_end()

    def serve(self, frame: memoryview, slot: Slot) -> None:
        header = read_request_header(frame, FLEXIBLE_FROM)
        services = self._services
        served = services.served.get((header.api_key, header.api_version))
        if served is None:
            if header.api_key == API_VERSIONS_KEY and header.api_version > api_versions.REQUEST.versions[-1]:
                # A newer client sends its newest version first; it learns ours from a response in version 0.
                first = services.serve_version(API_VERSIONS_KEY, 0)
                _reply(slot, first, NOT_TIMED, header.correlation_id, api_versions.unsupported())
                return
            served = services.serve_version(header.api_key, header.api_version)
        # Bytes behind the message are ignored, as Kafka ignores them: librdkafka's Metadata request has some.
        request = served.read(frame, header.body_position, False)
        version = served.version
        context = self._contexts.get(version)
        if context is None or context.client_id != header.client_id:
            context = self._new_context(version, header.client_id)
        measured = served.measured
        measured.count += 1
        began_us = NOT_TIMED if measured.count % TIMED_EVERY else measured.now_us()
        outcome = served.handle(request, context)
        if isinstance(outcome, Pending):
            if outcome.is_abandonable:
                slot.abandon = outcome.abandon
            outcome.then(partial(_reply, slot, served, began_us, header.correlation_id))
        elif iscoroutine(outcome):
            awaitable = cast("Awaitable[Response]", outcome)
            reply = _reply_later(awaitable, slot, served, began_us, header.correlation_id)
            services.run(reply, self._connection)
        else:
            _reply(slot, served, began_us, header.correlation_id, cast("Reply", outcome))

    def _new_context(self, version: int, client_id: str | None) -> Context:
        services = self._services
        context = self._contexts[version] = Context(
            services.broker,
            services.fetch_sessions,
            services.share_sessions,
            services.reply_templates,
            version,
            client_id,
            self._connection.peer_host,
            self._guard,
            self._listener,
            self._connection,
            self._link,
            self._session,
        )
        return context


async def _reply_later(
    outcome: Awaitable[Response], slot: Slot, served: ServedVersion, began_us: int, correlation_id: int
) -> None:
    _reply(slot, served, began_us, correlation_id, await outcome)


def _reply(slot: Slot, served: ServedVersion, began_us: int, correlation_id: int, reply: Reply | Fault) -> None:
    """Raises nothing: the caller may be resolving the results of other clients, too."""
    try:
        if began_us:
            served.measured.end(began_us)
        if isinstance(reply, bytearray):
            # A frame that the handler has filled in.
            write_correlation_id(reply, correlation_id)
            slot.fill([reply])
            return
        if isinstance(reply, NoReply):
            slot.fill([])
            return
        if isinstance(reply, _NO_ANSWERS):
            if isinstance(reply, Fault):
                slot.fail(reply.cause)
            else:
                slot.hang_up(reply.reason)
            return
        errors = nonzero_errors(reply)
        if errors:
            served.measured.errors.update(errors)
        slot.fill(reply_frame_parts(reply, served.version, correlation_id, has_tagged_header=served.has_tagged_header))
    except Exception as error:
        slot.fail(error)
