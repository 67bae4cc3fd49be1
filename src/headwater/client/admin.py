"""Administration of a cluster: topics, their settings, partitions and records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.client.cluster import Cluster, TopicDescription
from headwater.client.connection import BrokerConnection
from headwater.client.errors import UnknownTopic, check, only
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import NodeId, TopicId, TopicName, TopicPartition
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.records.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.protocol.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from headwater.protocol.messages.topics.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

BROKER_DEFAULT = -1

_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1
_SOURCES = {
    1: "topic",
    2: "broker, changed at run time",
    3: "cluster, changed at run time",
    4: "broker's settings",
    5: "default",
}
_DEFAULT_SOURCE = 5
_SIZE_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """An old broker does not tell everything: then `partition_count` and `replication_factor` are -1 and `id` is 0."""

    name: TopicName
    id: TopicId
    partition_count: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class TopicSetting:
    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    documentation: str


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    id: str
    controller: NodeId
    brokers: Mapping[NodeId, Endpoint]


class Admin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def describe_cluster(self) -> ClusterDescription:
        response = self._cluster.metadata()
        brokers = {NodeId(node.node_id): Endpoint(node.host, node.port) for node in response.brokers}
        return ClusterDescription(response.cluster_id or "", NodeId(response.controller_id), brokers)

    # -- topics

    def list_topics(self) -> list[TopicDescription]:
        return sorted(self._cluster.topics(), key=lambda topic: topic.name)

    def describe_topic(self, name: str) -> TopicDescription:
        self._cluster.forget([name])
        return self._cluster.topic(name)

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic, and return when it can be used. With `validate_only`, only check that it could be created."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partition_count,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (settings or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=self._cluster.timeout_ms, validate_only=validate_only)

        def read(response: CreateTopicsResponse) -> CreatedTopic:
            result = only(response.topics)
            _check(result.error_code, name, result.error_message)
            return CreatedTopic(
                TopicName(name), TopicId(result.topic_id), result.num_partitions, result.replication_factor
            )

        created = self._cluster.ask_controller(request, CreateTopicsResponse, read)
        if not validate_only:
            self.describe_topic(name)
        return created

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=self._cluster.timeout_ms
        )

        def read(response: DeleteTopicsResponse) -> None:
            result = only(response.responses)
            _check(result.error_code, name, result.error_message)

        self._cluster.ask_controller(request, DeleteTopicsResponse, read)
        self._cluster.forget([name])

    def add_partitions(self, name: str, partition_count: int, *, validate_only: bool = False) -> None:
        """Increase a topic's partitions to `partition_count` in total."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=partition_count, assignments=None)],
            timeout_ms=self._cluster.timeout_ms,
            validate_only=validate_only,
        )

        def read(response: CreatePartitionsResponse) -> None:
            result = only(response.results)
            _check(result.error_code, name, result.error_message)

        self._cluster.ask_controller(request, CreatePartitionsResponse, read)
        self._cluster.forget([name])

    # -- settings

    def describe_settings(self, topic: str) -> list[TopicSetting]:
        resource = DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource], include_documentation=True)

        def read(response: DescribeConfigsResponse) -> list[TopicSetting]:
            result = only(response.results)
            _check(result.error_code, topic, result.error_message)
            return [
                TopicSetting(
                    entry.name,
                    entry.value,
                    _SOURCES.get(entry.config_source, "unknown"),
                    entry.config_source == _DEFAULT_SOURCE,
                    entry.read_only,
                    entry.is_sensitive,
                    entry.documentation or "",
                )
                for entry in result.configs
            ]

        return self._cluster.ask_any(request, DescribeConfigsResponse, read)

    def alter_settings(
        self, topic: str, values: Mapping[str, str], unset: Sequence[str] = (), *, validate_only: bool = False
    ) -> None:
        """Set the settings in `values`, and return those in `unset` to their defaults. All others stay as they are."""
        changes = [AlterableConfig(name=name, config_operation=_SET, value=value) for name, value in values.items()]
        changes += [AlterableConfig(name=name, config_operation=_DELETE, value=None) for name in unset]
        resource = AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

        def read(response: IncrementalAlterConfigsResponse) -> None:
            result = only(response.responses)
            _check(result.error_code, topic, result.error_message)

        self._cluster.ask_controller(request, IncrementalAlterConfigsResponse, read)

    # -- partitions

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before each offset (-1: all records). Return the new start offset of each partition."""

        def ask(
            connection: BrokerConnection, questions: Mapping[TopicPartition, int]
        ) -> Iterator[tuple[TopicPartition, int, int]]:
            topics: dict[str, list[DeleteRecordsPartition]] = {}
            for (topic, index), offset in questions.items():
                topics.setdefault(topic, []).append(DeleteRecordsPartition(partition_index=index, offset=offset))
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
                timeout_ms=self._cluster.timeout_ms,
            )
            for topic in connection.call(request, DeleteRecordsResponse).topics:
                for answer in topic.partitions:
                    partition = TopicPartition(TopicName(topic.name), answer.partition_index)
                    yield partition, answer.error_code, answer.low_watermark

        return self._cluster.ask_leaders(before, ask)

    def partition_sizes(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the bytes that each partition takes on its leader's disk, or -1 where the leader does not tell."""

        def ask(
            connection: BrokerConnection, questions: Mapping[TopicPartition, None]
        ) -> Iterator[tuple[TopicPartition, int, int]]:
            indexes: dict[str, list[int]] = {}
            for topic, index in questions:
                indexes.setdefault(topic, []).append(index)
            request = DescribeLogDirsRequest(
                topics=[DescribableLogDirTopic(topic=name, partitions=asked) for name, asked in indexes.items()]
            )
            response = connection.call(request, DescribeLogDirsResponse)
            sizes = {
                (topic.name, answer.partition_index): answer.partition_size
                for directory in response.results
                for topic in directory.topics
                for answer in topic.partitions
                if not answer.is_future_key
            }
            for partition in questions:
                yield partition, response.error_code, sizes.get(partition, _SIZE_UNKNOWN)

        return self._cluster.ask_leaders(dict.fromkeys(partitions), ask)


def _check(code: int, topic: str, message: str | None) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(f"topic {topic!r} does not exist")
    check(code, f"topic {topic!r}", message)
