"""DescribeMetrics (key 10001), v0: an API of Headwater's own: the broker's metrics, for `headwater metrics`."""

from headwater.listeners.kafka.context import Context
from headwater.metrics import Family
from headwater.protocol.messages.observability.describe_metrics import (
    DescribeMetricsRequest,
    DescribeMetricsResponse,
    MetricFamily,
    MetricLabel,
    MetricSample,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = DescribeMetricsRequest


def handle(request: DescribeMetricsRequest, context: Context) -> DescribeMetricsResponse:
    denial = context.guard.denial(Operation.DESCRIBE, CLUSTER)
    if denial is not None:
        return DescribeMetricsResponse(error_code=denial.code, error_message=str(denial), families=[])
    families = context.broker.measurements.metrics.collect(request.name_prefix)
    return DescribeMetricsResponse(families=[_family(family) for family in families])


def _family(family: Family) -> MetricFamily:
    return MetricFamily(
        name=family.name,
        kind=family.kind,
        help=family.help,
        samples=[
            MetricSample(
                suffix=sample.suffix,
                labels=[MetricLabel(name=name, value=value) for name, value in sample.labels],
                value=float(sample.value),
            )
            for sample in family.samples
        ],
    )
