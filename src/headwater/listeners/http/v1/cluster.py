"""/v1/cluster, /v1/config, /v1/log-directories, /v1/audit: the broker itself."""

from typing import Annotated

import msgspec

from headwater.broker.audit.event import EventType
from headwater.broker.config_resources import Edit, EditOperation, ResourceType
from headwater.coordination.catalog.topic_names import AUDIT_TOPIC
from headwater.errors import ErrorCode, Refusal
from headwater.listeners.http.operation import operation
from headwater.listeners.http.records.reader import Position, offset_of, read
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.records import RecordCount
from headwater.listeners.http.v1.topics import Config, ConfigChange, ConfigValue
from headwater.security.acl import CLUSTER, Operation, topic

TAG = "cluster"
_READ_BYTES = 1 << 20


class NodeEntry(msgspec.Struct):
    """One broker of the cluster."""

    node_id: int
    rack: str | None


class Cluster(msgspec.Struct):
    """The cluster and its brokers."""

    cluster_id: str
    controller_id: int
    nodes: list[NodeEntry]


class HostedPartition(msgspec.Struct):
    """A partition in a log directory."""

    topic: str
    partition: int
    size_bytes: int


class LogDirectoryEntry(msgspec.Struct):
    """A directory of data and the room on its file system."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: list[HostedPartition]


class LogDirectories(msgspec.Struct):
    """The directories that hold the data of this broker."""

    log_directories: list[LogDirectoryEntry]


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Where to read the audit log from, and which events."""

    offset: str = "earliest"
    limit: RecordCount = 500
    user: str | None = None
    type: str | None = None
    result: str | None = None


class AuditPage(msgspec.Struct):
    """Events in their order, and where to read on."""

    events: list[msgspec.Raw]
    next_offset: int
    high_watermark: Annotated[int, msgspec.Meta(ge=0)]


@operation("GET", "/v1/cluster", tag=TAG)
async def describe_cluster(request: Request) -> Cluster:
    """The brokers of the cluster."""
    leadership = request.broker.leadership
    request.guard.check(Operation.DESCRIBE, CLUSTER)
    name = request.broker.config.listener_addresses[0].name
    nodes = [NodeEntry(node.id, node.rack) for node in leadership.nodes(name)]
    return Cluster(request.broker.cluster_id, leadership.controller_id, nodes)


@operation("GET", "/v1/config", tag=TAG)
async def describe_config(request: Request) -> Config:
    """All settings of this broker."""
    request.guard.check(Operation.DESCRIBE_CONFIGS, CLUSTER)
    return _config(request)


@operation("PATCH", "/v1/config", tag=TAG)
async def change_config(request: Request, body: ConfigChange) -> Config:
    """Change settings of this broker that may change while it runs: all of them, or none."""
    request.guard.check(Operation.ALTER_CONFIGS, CLUSTER)
    edits = [Edit(name, EditOperation.SET, value) for name, value in body.set.items()]
    edits += [Edit(name, EditOperation.DELETE, None) for name in body.unset]
    edit, name = request.broker.configs.edit, _node(request)
    if body.validate_only:
        await edit(ResourceType.BROKER, name, edits, validate_only=True)
    else:
        details = {"settings": ",".join(each.name for each in edits)}
        with request.guard.change(EventType.CONFIG_CHANGE, f"broker '{name}'", details):
            await edit(ResourceType.BROKER, name, edits, validate_only=False)
    return _config(request)


def _node(request: Request) -> str:
    return str(request.broker.leadership.node_id)


def _config(request: Request) -> Config:
    entries = request.broker.configs.describe(ResourceType.BROKER, _node(request))
    return Config([ConfigValue(each.name, each.value, each.default, each.documentation) for each in entries])


@operation("GET", "/v1/log-directories", tag=TAG)
async def describe_log_directories(request: Request) -> LogDirectories:
    """The directories that hold the data of this broker, and their partitions."""
    request.guard.check(Operation.DESCRIBE, CLUSTER)
    directory = request.broker.log_directory()
    partitions = [
        HostedPartition(each.id.topic, each.id.partition, each.size_bytes) for each in request.broker.partitions.all()
    ]
    return LogDirectories(
        [LogDirectoryEntry(directory.path, directory.total_bytes, directory.usable_bytes, partitions)]
    )


@operation("GET", "/v1/audit", tag=TAG)
async def read_audit(request: Request, query: AuditQuery) -> Response | AuditPage:
    """Who did what: events of the audit log. Needs READ on its topic."""
    request.guard.check(Operation.READ, topic(AUDIT_TOPIC))
    broker = request.broker
    if broker.topics.find(AUDIT_TOPIC) is None:
        raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, "nothing has been recorded yet, or headwater.audit is off")
    offset = await offset_of(broker, AUDIT_TOPIC, 0, query.offset)
    (found,) = await read(
        broker,
        [Position(AUDIT_TOPIC, 0, offset)],
        records_max=query.limit,
        bytes_max=_READ_BYTES,
        wait_ms=0,
    )
    if found.error is not None:
        raise found.error
    events = [record.value for record in found.records if record.value is not None and _fits(record.value, query)]
    return AuditPage([msgspec.Raw(each) for each in events], found.next_offset, found.high_watermark)


class _Event(msgspec.Struct):
    user: str = ""
    type: str = ""
    result: str = ""


def _fits(value: bytes, query: AuditQuery) -> bool:
    event = msgspec.json.decode(value, type=_Event)
    user = query.user if query.user is None or ":" in query.user else f"User:{query.user}"
    kind = query.type or ""
    return (
        user in (None, event.user)
        and (event.type.startswith(kind) if kind.endswith(".") else kind in ("", event.type))
        and query.result in (None, event.result)
    )


AREA = Area(
    "cluster",
    (
        describe_cluster,
        describe_config,
        change_config,
        describe_log_directories,
        read_audit,
    ),
)
