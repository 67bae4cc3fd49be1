"""Health for probes, metrics for Prometheus, and the status of the broker for people."""

import asyncio

import msgspec

from headwater.listeners.http.health.readiness import Check, checks
from headwater.listeners.http.operation import operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.router import Area
from headwater.metrics import Family, render
from headwater.security.acl import CLUSTER, Operation

TAG = "health"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Of numbers, between two of which the loop serves others.
_SAMPLES_PER_STEP = 500
# From here on the text is made in a thread.
_SAMPLES_INLINE_MAX = 2_000


class Liveness(msgspec.Struct):
    """The process answers."""

    status: str


class Readiness(msgspec.Struct):
    """Whether clients should be sent to this broker; if not, `checks` say why."""

    status: str
    checks: list[Check]


class Status(msgspec.Struct):
    """The broker at a glance."""

    cluster_id: str
    node_id: int
    status: str
    checks: list[Check]
    topics: int
    partitions: int
    groups: int
    connections: int


@operation("GET", "/health/live", is_open=True, tag=TAG)
async def live(_request: Request) -> Liveness:
    """Whether the process is alive."""
    return Liveness("live")


@operation("GET", "/health/ready", is_open=True, tag=TAG, further_statuses={503: "Not ready."})
async def ready(request: Request) -> Readiness | Response:
    """Whether the broker is ready: 503 if it is not, and what keeps it from that."""
    found = _readiness(request)
    if found.status == "ready":
        return found
    return Response(503, msgspec.json.encode(found), headers=[("retry-after", "1")])


@operation("GET", "/metrics", tag=TAG, answer_type=METRICS_TYPE)
async def metrics(request: Request) -> Response:
    """All metrics, in Prometheus's text format. Needs DESCRIBE on the cluster."""
    request.guard.check(Operation.DESCRIBE, CLUSTER)
    families: list[Family] = []
    count = since_pause = 0
    for family in request.broker.measurements.metrics.collect_each():
        families.append(family)
        count += len(family.samples)
        since_pause += len(family.samples)
        if since_pause >= _SAMPLES_PER_STEP:
            since_pause = 0
            await asyncio.sleep(0)
    families.reverse()
    text = render(families) if count <= _SAMPLES_INLINE_MAX else await asyncio.to_thread(render, families)
    return Response(200, text.encode(), METRICS_TYPE)


@operation("GET", "/v1/status", tag=TAG)
async def status(request: Request) -> Status:
    """The broker at a glance. Needs DESCRIBE on the cluster."""
    request.guard.check(Operation.DESCRIBE, CLUSTER)
    broker = request.broker
    found = _readiness(request)
    return Status(
        cluster_id=broker.cluster_id,
        node_id=broker.leadership.node_id,
        status=found.status,
        checks=found.checks,
        topics=len(broker.metadata.state.by_name),
        partitions=broker.metadata.state.partition_total,
        groups=sum(1 for _ in broker.groups.ids()),
        connections=request.services.pool.connection_count,
    )


def _readiness(request: Request) -> Readiness:
    found = list(checks(request.broker, is_stopping=request.services.is_stopping))
    is_ready = all(check.is_ok for check in found)
    return Readiness("ready" if is_ready else "not ready", found)


AREA = Area("health", (live, ready, metrics, status))
