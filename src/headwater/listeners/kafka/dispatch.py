"""From a frame to its handler and back: decode, call, encode.

A handler is a function of request and context. It returns the response, a `Pending` of it where waiting is part of the
hot path, or is a coroutine; None means that the client wants no response, `HangUp` that its connection must end. A
bytearray is a response that the handler has encoded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from inspect import iscoroutine
from struct import Struct
from types import ModuleType
from typing import Any, NamedTuple, cast

from headwater.broker.broker import Broker
from headwater.broker.pending import Pending
from headwater.errors import ErrorCode, ProtocolError
from headwater.listeners.kafka.apis.cluster import api_versions, describe_cluster, find_coordinator
from headwater.listeners.kafka.apis.configs import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from headwater.listeners.kafka.apis.groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from headwater.listeners.kafka.apis.records import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from headwater.listeners.kafka.apis.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_log_dirs,
    describe_topic_partitions,
    metadata,
)
from headwater.listeners.kafka.apis.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    publish_batch,
    txn_offset_commit,
    write_txn_markers,
)
from headwater.listeners.kafka.context import Context, HangUp
from headwater.listeners.kafka.fetch_sessions import FetchSessions
from headwater.listeners.tcp.connection import Connection, Slot
from headwater.listeners.tcp.output import Part
from headwater.protocol.wire.codec import Request, Response, decode, encode_parts
from headwater.protocol.wire.headers import read_request_header

logger = logging.getLogger(__name__)

APIS: tuple[ModuleType, ...] = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    add_partitions_to_txn,
    add_offsets_to_txn,
    end_txn,
    write_txn_markers,
    txn_offset_commit,
    describe_configs,
    alter_configs,
    describe_log_dirs,
    create_partitions,
    delete_groups,
    incremental_alter_configs,
    offset_delete,
    describe_cluster,
    describe_producers,
    describe_transactions,
    list_transactions,
    consumer_group_heartbeat,
    consumer_group_describe,
    list_config_resources,
    describe_topic_partitions,
    publish_batch,
)

Outcome = Response | Pending[Response | bytearray] | Coroutine[Any, Any, Response] | None
Handler = Callable[[Request, Context], Outcome]


class Api(NamedTuple):
    request: type[Request]
    handle: Handler
    first_version: int
    last_version: int
    flexible_from: int


def _api(module: ModuleType) -> Api:
    request = cast("type[Request]", module.REQUEST)
    flexible_from = request.flexible_from if request.flexible_from is not None else request.versions.stop
    return Api(request, module.handle, request.versions.start, request.versions.stop - 1, flexible_from)


_BY_KEY: dict[int, Api] = {module.REQUEST.api_key: _api(module) for module in APIS}
_FLEXIBLE_FROM: dict[int, int] = {key: api.flexible_from for key, api in _BY_KEY.items()}
_API_VERSIONS_KEY = api_versions.REQUEST.api_key
# As Kafka does (KAFKA-18659): older librdkafkas compress only for a broker that claims the first versions of Produce.
_FIRST_ADVERTISED: dict[int, int] = {produce.REQUEST.api_key: 0}

_frame_head = Struct(">ii")
# The end of a response header that has tagged fields.
_NO_TAGS = bytes(1)
_write_size = Struct(">i").pack_into


class Dispatcher:
    def __init__(self, broker: Broker, advertised: tuple[str, int]) -> None:
        self._broker = broker
        self._fetch_sessions = FetchSessions(broker.config.max_incremental_fetch_session_cache_slots, broker.clock)
        self._advertised = advertised
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, frame: memoryview, slot: Slot, connection: Connection) -> None:
        header = read_request_header(frame, _FLEXIBLE_FROM)
        api = _BY_KEY.get(header.api_key)
        if api is None:
            raise ProtocolError(f"API key {header.api_key} is not served here")
        version = header.api_version
        if not api.first_version <= version <= api.last_version:
            if header.api_key == _API_VERSIONS_KEY:
                # A newer client asks in its newest version first; it learns ours from an answer in version 0.
                self._reply(slot, api_versions.unsupported(), header.correlation_id, 0, False)
                return
            raise ProtocolError(
                f"{api.request.__name__} version {version} is not served, only "
                f"{api.first_version} to {api.last_version}"
            )
        request = decode(api.request, version, frame, header.body_position, exact=False)
        context = connection.contexts.get(version)
        if context is None or context.client_id != header.client_id:
            context = connection.contexts[version] = Context(
                self._broker, self._fetch_sessions, version, header.client_id, connection.peer_host, self._advertised
            )
        flexible_header = version >= api.flexible_from and header.api_key != _API_VERSIONS_KEY
        correlation_id = header.correlation_id
        outcome = api.handle(request, context)
        if isinstance(outcome, Pending):
            if outcome.is_abandonable:
                slot.abandon = outcome.abandon
            outcome.then(lambda response: self._reply(slot, response, correlation_id, version, flexible_header))
        elif iscoroutine(outcome):
            awaitable = cast("Awaitable[Response]", outcome)
            task = asyncio.ensure_future(
                self._reply_later(awaitable, slot, connection, correlation_id, version, flexible_header)
            )
            # What changes something runs to its end, even if the client has gone away.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif outcome is None:
            slot.fill([])
        else:
            self._reply(slot, cast("Response", outcome), correlation_id, version, flexible_header)

    async def _reply_later(
        self,
        outcome: Awaitable[Response],
        slot: Slot,
        connection: Connection,
        correlation_id: int,
        version: int,
        flexible_header: bool,
    ) -> None:
        try:
            response = await outcome
        except Exception:
            logger.exception("a request of %s:%s failed, its connection is closed", *connection.peer[:2])
            connection.close()
            return
        self._reply(slot, response, correlation_id, version, flexible_header)

    def _reply(
        self,
        slot: Slot,
        response: Response | bytearray | HangUp | None,
        correlation_id: int,
        version: int,
        flexible_header: bool,
    ) -> None:
        if isinstance(response, bytearray):
            # Its handler has encoded it.
            head = _frame_head.pack(len(response) + (5 if flexible_header else 4), correlation_id)
            slot.fill([bytearray(b"".join((head, _NO_TAGS, response) if flexible_header else (head, response)))])
            return
        if response is None:
            slot.fill([])
            return
        if isinstance(response, HangUp):
            slot.hang_up(response.reason)
            return
        try:
            out = bytearray(_frame_head.pack(0, correlation_id))
            if flexible_header:
                out += _NO_TAGS
            parts = cast("list[Part]", encode_parts(response, version, out))
            _write_size(out, 0, sum(map(len, parts)) - 4)
        except Exception:
            # Whoever has made the result ready goes on with the results of others.
            logger.exception("a %s cannot be encoded", type(response).__name__)
            slot.hang_up("its reply could not be made")
            return
        slot.fill(parts)


def advertised_apis() -> list[tuple[int, int, int]]:
    """Key, first and last version of every API that is served."""
    return sorted(
        (key, _FIRST_ADVERTISED.get(key, api.first_version), api.last_version) for key, api in _BY_KEY.items()
    )


assert ErrorCode.NONE == 0, "encoded responses rely on it: an error code that is not set means success"
