"""Topics and their partitions."""

from typing import Any

from headwater.broker.partition import Partition
from headwater.broker.reads.offset_lookup import Place
from headwater.broker.topics import Topic
from headwater.listeners.http.proxy.answers import answer, partition_not_found, topic_not_found
from headwater.listeners.http.proxy.declaration import partition_index, proxy_operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.security.acl import Operation, ResourceType
from headwater.security.acl import topic as named


@proxy_operation("GET", "/topics")
async def list_topics(request: Request) -> Response:
    """The names of the topics. Those that the client may not describe are left out."""
    guard = request.guard
    names = (topic.name for topic in request.broker.topics.all())
    return answer(
        request, sorted(name for name in names if guard.allows(Operation.DESCRIBE, named(name), is_probe=True))
    )


@proxy_operation("GET", "/topics/{topic}")
async def describe_topic(request: Request, topic: str) -> Response:
    """A topic with its partitions, and with its settings for clients that may describe those."""
    found = described_topic(request, topic)
    configs: dict[str, str | None] = {}
    if request.guard.allows(Operation.DESCRIBE_CONFIGS, named(topic), is_probe=True):
        entries = request.broker.configs.describe(ResourceType.TOPIC, topic)
        configs = {each.name: each.value for each in entries}
    return answer(request, {"name": found.name, "configs": configs, "partitions": _partitions(request, found)})


@proxy_operation("GET", "/topics/{topic}/partitions")
async def list_partitions(request: Request, topic: str) -> Response:
    """The partitions of a topic with their replicas."""
    return answer(request, _partitions(request, described_topic(request, topic)))


@proxy_operation("GET", "/topics/{topic}/partitions/{partition}")
async def describe_partition(request: Request, topic: str, partition: str) -> Response:
    """A partition with its replicas."""
    return answer(request, _shown(request, existing_partition(request, described_topic(request, topic), partition)))


@proxy_operation("GET", "/topics/{topic}/partitions/{partition}/offsets")
async def partition_offsets(request: Request, topic: str, partition: str) -> Response:
    """The offset of the first record, and the one that the next record gets."""
    found = existing_partition(request, described_topic(request, topic), partition)
    index = found.id.partition
    end = await request.broker.look_up_offset(topic, index, Place.LATEST, committed_only=False)
    return answer(request, {"beginning_offset": found.start_offset, "end_offset": end.offset})


def described_topic(request: Request, name: str) -> Topic:
    request.guard.check(Operation.DESCRIBE, named(name))
    found = request.broker.topics.find(name)
    if found is None:
        raise topic_not_found(name)
    return found


def existing_partition(request: Request, topic: Topic, text: str) -> Partition:
    index = partition_index(text)
    if index >= topic.partition_count:
        raise partition_not_found(index)
    return request.broker.partition(topic.name, index)


def _partitions(request: Request, topic: Topic) -> list[dict[str, Any]]:
    return [_shown(request, each) for each in request.broker.hosted(topic.name)]


def _shown(request: Request, partition: Partition) -> dict[str, Any]:
    state = request.broker.leadership.replicas_of(partition.id)
    return {
        "partition": partition.id.partition,
        "leader": state.leader,
        "replicas": [
            {"broker": node, "leader": node == state.leader, "in_sync": node in state.in_sync}
            for node in state.replicas
        ],
    }


OPERATIONS = (list_topics, describe_topic, list_partitions, describe_partition, partition_offsets)
