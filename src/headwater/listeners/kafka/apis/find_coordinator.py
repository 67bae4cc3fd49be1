"""FindCoordinator (key 10): there is no coordinator, because there are no groups and transactions yet.

Served all the same: librdkafka takes a broker without it for one that cannot read LZ4, and sends such batches
uncompressed.
"""

from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

REQUEST = FindCoordinatorRequest

FIRST_VERSION_WITH_MANY = 4
NO_NODE = -1
REASON = "consumer groups and transactions are not served here: assign partitions by hand"


def handle(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if context.api_version < FIRST_VERSION_WITH_MANY:
        return FindCoordinatorResponse(error_code=code, error_message=REASON, node_id=NO_NODE, port=NO_NODE)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=code, error_message=REASON)
            for key in request.coordinator_keys
        ]
    )
