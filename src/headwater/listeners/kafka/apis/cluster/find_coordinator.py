"""FindCoordinator (key 10), v0-6: the node that decides for a group or a transactional id. The first such request
creates the internal topic that stores them.

v1 adds transactional ids, v3 is flexible, v4 takes many keys, v6 adds share groups. librdkafka
believes that a broker without this API cannot read LZ4, and then sends such batches uncompressed."""

from enum import IntEnum

from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.cluster.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.security.acl import CLUSTER, Operation, group, transactional_id

REQUEST = FindCoordinatorRequest

FIRST_VERSION_WITH_MANY = 4
NO_NODE = -1
# In base64.
TOPIC_ID_LENGTH = 22


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


async def handle(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    is_single = context.api_version < FIRST_VERSION_WITH_MANY
    keys = [request.key] if is_single else request.coordinator_keys
    coordinators = [await _find(key, request.key_type, context) for key in keys]
    if not is_single:
        return FindCoordinatorResponse(coordinators=coordinators)
    (found,) = coordinators
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def check_share_key(key: str) -> None:
    """The key is a group, a topic id and a partition; a group's name may have colons."""
    _, topic_id, partition = ("", "", *key.rsplit(":", 2))[-3:]
    if key.count(":") < 2 or len(topic_id) != TOPIC_ID_LENGTH or not partition.isdecimal():
        raise Refusal(ErrorCode.INVALID_REQUEST, f"'{key[:300]}' is not group:topic id:partition")


async def _find(key: str, key_type: int, context: Context) -> Coordinator:
    broker = context.broker
    try:
        match key_type:
            case KeyType.GROUP:
                context.guard.check(Operation.DESCRIBE, group(key))
                await broker.groups.prepare()
                log = broker.groups.log_of(key)
            case KeyType.TRANSACTION:
                context.guard.check(Operation.DESCRIBE, transactional_id(key))
                await broker.transactions.prepare()
                log = broker.transactions.log_of(key)
            case KeyType.SHARE:
                # For other brokers: members of share groups need the coordinator of their group.
                context.guard.check(Operation.CLUSTER_ACTION, CLUSTER)
                check_share_key(key)
                await broker.shares.prepare()
                log = broker.shares.log_of(key)
            case _:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"coordinators of type {key_type} are not served here")
        node = broker.leadership.coordinator(log, context.listener)
    except HeadwaterError as error:
        return Coordinator(
            key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=error.code, error_message=str(error)
        )
    return Coordinator(key=key, node_id=node.id, host=node.endpoint.host, port=node.endpoint.port)
