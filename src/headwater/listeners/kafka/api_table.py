"""The table of APIs that are served. A new API needs a message, a handler and a line in `APIS`."""

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple, TypeAlias, cast

from headwater.errors import ErrorCode
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
from headwater.listeners.kafka.apis.observability import describe_metrics
from headwater.listeners.kafka.apis.records import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from headwater.listeners.kafka.apis.security import (
    alter_user_scram_credentials,
    create_delegation_token,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
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
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.outcome import Outcome
from headwater.protocol.wire.codec import Request

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
    sasl_handshake,
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
    sasl_authenticate,
    create_partitions,
    create_delegation_token,
    renew_delegation_token,
    expire_delegation_token,
    describe_delegation_token,
    delete_groups,
    incremental_alter_configs,
    offset_delete,
    describe_user_scram_credentials,
    alter_user_scram_credentials,
    describe_cluster,
    describe_producers,
    describe_transactions,
    list_transactions,
    consumer_group_heartbeat,
    consumer_group_describe,
    list_config_resources,
    describe_topic_partitions,
    publish_batch,
    describe_metrics,
)

Handler: TypeAlias = Callable[[Request, Context], Outcome]


class Api(NamedTuple):
    name: str
    request: type[Request]
    handle: Handler
    first_version: int
    last_version: int
    flexible_from: int


def _api(module: ModuleType) -> Api:
    request = cast("type[Request]", module.REQUEST)
    flexible_from = request.flexible_from if request.flexible_from is not None else request.versions.stop
    name = request.__name__.removesuffix("Request")
    return Api(name, request, module.handle, request.versions.start, request.versions.stop - 1, flexible_from)


BY_KEY: dict[int, Api] = {module.REQUEST.api_key: _api(module) for module in APIS}
FLEXIBLE_FROM: dict[int, int] = {key: api.flexible_from for key, api in BY_KEY.items()}
API_VERSIONS_KEY = api_versions.REQUEST.api_key
# As Kafka does (KAFKA-18659): older librdkafkas compress only for a broker that advertises Produce from version 0 on.
_FIRST_ADVERTISED: dict[int, int] = {produce.REQUEST.api_key: 0}


def advertised_apis() -> list[tuple[int, int, int]]:
    """Key, first and last version of every API that is served."""
    return sorted((key, _FIRST_ADVERTISED.get(key, api.first_version), api.last_version) for key, api in BY_KEY.items())


assert ErrorCode.NONE == 0, "encoded responses rely on it: an error code that is not set means success"
