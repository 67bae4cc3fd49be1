"""Which topics take dead letters, and those of which group."""

from collections.abc import Iterable, Sequence

from headwater.client.cluster import Cluster, TopicDescription
from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import ClientError, Refused, check, only
from headwater.client.groups.share_groups import share_offsets
from headwater.errors import ErrorCode
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

GROUP_ENABLE = "errors.deadletterqueue.group.enable"
TOPIC_NAME = "errors.deadletterqueue.topic.name"
SUFFIX = ".dlq"

_TOPIC_RESOURCE, _GROUP_RESOURCE = 2, 32
_PAGE_TOPICS = 1000


class NoDeadLetterTopic(ClientError):
    """The topic takes no dead letters."""

    code = ErrorCode.INVALID_REQUEST


def letter_topics(cluster: Cluster) -> list[TopicDescription]:
    """Return all dead-letter topics whose settings the user may see, by name."""
    topics: dict[str, TopicDescription] = {topic.name: topic for topic in cluster.topics() if not topic.is_internal}
    found: list[TopicDescription] = []
    names = sorted(topics)
    for start in range(0, len(names), _PAGE_TOPICS):
        results = _describe(cluster, _TOPIC_RESOURCE, names[start : start + _PAGE_TOPICS], GROUP_ENABLE)
        found += [
            topics[result.resource_name]
            for result in results
            if result.error_code == ErrorCode.NONE and _value(result) == "true"
        ]
    return found


def letter_topic(cluster: Cluster, name: str, *, must_be_known: bool = False) -> TopicDescription:
    """Return the description of a dead-letter topic. Raises NoDeadLetterTopic if it is another one. A user who may not
    see its settings is believed, unless it `must_be_known`."""
    cluster.forget([name])
    topic = cluster.topic(name)
    result = only(_describe(cluster, _TOPIC_RESOURCE, [name], GROUP_ENABLE))
    if result.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED or must_be_known:
        check(result.error_code, f"the settings of topic {name!r}", result.error_message)
        # Brokers before Kafka 4.2 do not know the setting.
        is_one = _value(result) == "true" or (_value(result) is None and not must_be_known)
        if not is_one:
            raise _no_letter_topic(cluster, name)
    return topic


def letter_topics_of(cluster: Cluster, group: str) -> list[str]:
    """Return the names of the dead-letter topics that a share group uses now, as far as they exist."""
    coordinator = GroupCoordinator(cluster, group)
    # Checked first: every group has settings, also one that does not exist.
    names = {offset.topic + SUFFIX for offset in share_offsets(coordinator)}
    result = only(_describe(cluster, _GROUP_RESOURCE, [group], TOPIC_NAME))
    check(result.error_code, f"the settings of group {group!r}", result.error_message)
    if chosen := _value(result):
        names = {chosen}
    return [topic.name for topic in letter_topics(cluster) if topic.name in names]


def _no_letter_topic(cluster: Cluster, name: str) -> NoDeadLetterTopic:
    other = name + SUFFIX
    try:
        hint = f"; its dead letters are in '{other}'" if cluster.topics([other]) else ""
    except Refused:
        hint = ""
    return NoDeadLetterTopic(f"topic '{name}' is no dead-letter topic: it does not have {GROUP_ENABLE}=true{hint}")


def _describe(cluster: Cluster, kind: int, names: Iterable[str], setting: str) -> Sequence[DescribeConfigsResult]:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[setting]) for name in names
    ]
    request = DescribeConfigsRequest(resources=resources)
    return cluster.ask_any(request, DescribeConfigsResponse, lambda response: response.results)


def _value(result: DescribeConfigsResult) -> str | None:
    """None if the broker does not know the setting."""
    return next((entry.value for entry in result.configs), None)
