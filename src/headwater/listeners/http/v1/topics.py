"""/v1/topics: topics, their partitions and their settings."""

from typing import Annotated, TypeAlias

import msgspec

from headwater.broker.audit.event import EventType
from headwater.broker.config_resources import Edit, EditOperation, ResourceType
from headwater.broker.topics import Topic
from headwater.listeners.http.etag import check_match, etag_of
from headwater.listeners.http.operation import operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.page import PageQuery, page_of
from headwater.security.acl import CLUSTER, Operation
from headwater.security.acl import topic as named

TAG = "topics"
PartitionCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class TopicCreation(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create. Without a number of partitions it gets the broker's default."""

    name: str
    partitions: PartitionCount | None = None
    config: dict[str, str] = {}
    # Only find out whether it could be created.
    validate_only: bool = False


class TopicPage(msgspec.Struct):
    """Names of topics, in their order."""

    topics: list[str]
    # Where the next page begins; null on the last one.
    next: str | None


class PartitionDescription(msgspec.Struct):
    """One partition and its offsets."""

    partition: int
    leader: int
    is_online: bool
    start_offset: int
    # The offset up to which consumers read.
    high_watermark: int
    size_bytes: int


class TopicDescription(msgspec.Struct):
    """One topic."""

    name: str
    id: str
    partitions: list[PartitionDescription]
    # What the topic sets itself.
    config: dict[str, str]


class ConfigValue(msgspec.Struct):
    """One setting in effect. The value is null if it is unset or secret."""

    name: str
    value: str | None
    # Whether nobody has set it.
    is_default: bool
    documentation: str


class Config(msgspec.Struct):
    """All settings in effect."""

    config: list[ConfigValue]


class ConfigChange(msgspec.Struct, forbid_unknown_fields=True):
    """Settings to set, and those to unset so that the default counts again."""

    set: dict[str, str] = {}
    unset: list[str] = []
    validate_only: bool = False


class PartitionsGrowth(msgspec.Struct, forbid_unknown_fields=True):
    """The number of partitions that the topic is to have in all."""

    partitions: PartitionCount


class RecordsDeletion(msgspec.Struct, forbid_unknown_fields=True):
    """The offset before which records are deleted; -1 deletes all."""

    offset: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class LogStart(msgspec.Struct):
    """Where the log begins now."""

    start_offset: int


@operation("GET", "/v1/topics", tag=TAG)
async def list_topics(request: Request, query: PageQuery) -> TopicPage:
    """List the topics that the client may describe."""
    guard = request.guard
    names = (
        topic.name
        for topic in request.broker.topics.all()
        if guard.allows(Operation.DESCRIBE, named(topic.name), is_probe=True)
    )
    found, following = page_of(names, query)
    return TopicPage(found, following)


@operation("POST", "/v1/topics", status=201, tag=TAG, further_statuses={204: "It could be created (validate_only)."})
async def create_topic(request: Request, body: TopicCreation) -> Response | TopicDescription:
    """Create a topic."""
    request.guard.check_creates_topic(body.name)
    create = request.broker.topics.create
    if body.validate_only:
        await create(body.name, body.config, partition_count=body.partitions, validate_only=True)
        return Response(204, b"", "")
    with request.guard.change(EventType.TOPIC_CREATE, str(named(body.name))):
        topic = await create(body.name, body.config, partition_count=body.partitions)
    content = msgspec.json.encode(_description(request, topic))
    return Response(201, content, headers=[("location", f"/v1/topics/{topic.name}")])


@operation("GET", "/v1/topics/{topic}", tag=TAG)
async def describe_topic(request: Request, topic: str) -> TopicDescription:
    """Describe a topic: its partitions with their offsets and sizes."""
    request.guard.check(Operation.DESCRIBE, named(topic))
    return _description(request, request.broker.topics.existing(topic))


@operation("DELETE", "/v1/topics/{topic}", status=204, tag=TAG)
async def delete_topic(request: Request, topic: str) -> None:
    """Delete a topic, with everything that groups have committed for it."""
    guard = request.guard
    if not guard.allows(Operation.DELETE, CLUSTER, is_probe=True):
        guard.check(Operation.DESCRIBE, named(topic))
        request.broker.topics.existing(topic)
        guard.check(Operation.DELETE, named(topic))
    with guard.change(EventType.TOPIC_DELETE, str(named(topic))):
        await request.broker.topics.delete(topic)


@operation("PATCH", "/v1/topics/{topic}/partitions", tag=TAG)
async def add_partitions(request: Request, topic: str, body: PartitionsGrowth) -> TopicDescription:
    """Let a topic grow. Keys go to other partitions from then on."""
    request.guard.check(Operation.ALTER, named(topic))
    with request.guard.change(EventType.TOPIC_MODIFY, str(named(topic)), {"partitions": str(body.partitions)}):
        await request.broker.topics.add_partitions(topic, body.partitions)
    return _description(request, request.broker.topics.existing(topic))


@operation("GET", "/v1/topics/{topic}/config", tag=TAG, further_statuses={304: "Unchanged (If-None-Match)."})
async def describe_topic_config(request: Request, topic: str) -> Response | Config:
    """All settings in effect for a topic. The answer has an ETag."""
    request.guard.check(Operation.DESCRIBE_CONFIGS, named(topic))
    content = msgspec.json.encode(_config(request, topic))
    return Response(200, content, headers=[("etag", etag_of(content))])


@operation("PATCH", "/v1/topics/{topic}/config", tag=TAG)
async def change_topic_config(request: Request, topic: str, body: ConfigChange) -> Response | Config:
    """Change settings of a topic: all of them, or none. With If-Match, only if nobody has changed them since."""
    request.guard.check(Operation.ALTER_CONFIGS, named(topic))
    check_match(request, lambda: msgspec.json.encode(_config(request, topic)))
    edits = [Edit(name, EditOperation.SET, value) for name, value in body.set.items()]
    edits += [Edit(name, EditOperation.DELETE, None) for name in body.unset]
    edit = request.broker.configs.edit
    if body.validate_only:
        await edit(ResourceType.TOPIC, topic, edits, validate_only=True)
    else:
        details = {"settings": ",".join(each.name for each in edits)}
        with request.guard.change(EventType.CONFIG_CHANGE, str(named(topic)), details):
            await edit(ResourceType.TOPIC, topic, edits, validate_only=False)
    content = msgspec.json.encode(_config(request, topic))
    return Response(200, content, headers=[("etag", etag_of(content))])


@operation("POST", "/v1/topics/{topic}/partitions/{partition}/truncate", tag=TAG)
async def delete_records(request: Request, topic: str, partition: int, body: RecordsDeletion) -> LogStart:
    """Delete the records of a partition before an offset."""
    request.guard.check(Operation.DELETE, named(topic))
    details = {"partition": str(partition), "before": str(body.offset)}
    with request.guard.change(EventType.RECORDS_DELETE, str(named(topic)), details):
        return LogStart(await request.broker.delete_records(topic, partition, body.offset))


def _description(request: Request, topic: Topic) -> TopicDescription:
    broker = request.broker
    shows_config = request.guard.allows(Operation.DESCRIBE_CONFIGS, named(topic.name), is_probe=True)
    return TopicDescription(
        name=topic.name,
        id=str(topic.id),
        partitions=[
            PartitionDescription(
                partition=each.id.partition,
                leader=broker.leadership.replicas_of(each.id).leader,
                is_online=each.is_online,
                start_offset=each.start_offset,
                high_watermark=each.high_watermark,
                size_bytes=each.size_bytes,
            )
            for each in broker.hosted(topic.name)
        ],
        config=dict(topic.overrides) if shows_config else {},
    )


def _config(request: Request, topic: str) -> Config:
    entries = request.broker.configs.describe(ResourceType.TOPIC, topic)
    return Config([ConfigValue(each.name, each.value, each.default, each.documentation) for each in entries])


AREA = Area(
    "topics",
    (
        list_topics,
        create_topic,
        describe_topic,
        delete_topic,
        add_partitions,
        describe_topic_config,
        change_topic_config,
        delete_records,
    ),
)
