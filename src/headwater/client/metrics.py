"""What brokers measure of themselves, asked for over their Kafka port."""

from headwater.client.cluster import Cluster
from headwater.client.errors import check
from headwater.endpoint import Endpoint
from headwater.ids import NodeId
from headwater.metrics import Family, Kind, Sample
from headwater.protocol.messages.observability.describe_metrics import (
    DescribeMetricsRequest,
    DescribeMetricsResponse,
    MetricFamily,
)

_KINDS: dict[str, Kind] = {"counter": "counter", "gauge": "gauge", "histogram": "histogram"}


def read_metrics(cluster: Cluster, prefix: str = "") -> dict[NodeId, list[Family]]:
    """The metrics of each broker whose names begin with `prefix`. Only Headwater's brokers have them."""

    def ask() -> dict[NodeId, list[Family]]:
        found: dict[NodeId, list[Family]] = {}
        for broker in cluster.metadata().brokers:
            connection = cluster.connection(Endpoint(broker.host, broker.port))
            response = connection.call(DescribeMetricsRequest(name_prefix=prefix), DescribeMetricsResponse)
            check(response.error_code, f"the metrics of the broker at {connection.endpoint}", response.error_message)
            found[NodeId(broker.node_id)] = [_family(family) for family in response.families]
        return found

    return cluster.retrying(ask)


def _family(told: MetricFamily) -> Family:
    samples = [
        Sample(tuple((label.name, label.value) for label in sample.labels), sample.value, sample.suffix)
        for sample in told.samples
    ]
    return Family(told.name, _KINDS.get(told.kind, "gauge"), told.help, samples)
