"""DescribeClientQuotas (key 48), v0-1: there are no quotas, and none can be set. Kafka's command that shows users asks
for theirs, too."""

from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.configs.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = DescribeClientQuotasRequest


def handle(request: DescribeClientQuotasRequest, context: Context) -> DescribeClientQuotasResponse:  # noqa: ARG001
    denial = context.guard.denial(Operation.DESCRIBE_CONFIGS, CLUSTER)
    if denial is not None:
        return DescribeClientQuotasResponse(error_code=denial.code, error_message=str(denial), entries=None)
    return DescribeClientQuotasResponse(entries=[])
