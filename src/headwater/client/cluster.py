"""The brokers behind a bootstrap list: metadata (who leads which partition), a connection to each broker, and retries
when leadership or brokers change."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from headwater.client.backoff import Backoff
from headwater.client.connection import CLIENT_ID, RESPONSE_BYTES_MAX, TIMEOUT_MS, BrokerConnection
from headwater.client.errors import ClientError, ConnectionLost, Refused, UnknownTopic, check
from headwater.client.security.security import PLAINTEXT, Security
from headwater.clock import Clock, SystemClock
from headwater.endpoint import Endpoint
from headwater.errors import ConfigError, ErrorCode
from headwater.ids import NodeId, TopicId, TopicName, TopicPartition
from headwater.protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headwater.protocol.wire.codec import Request, Response

# A broker may not know yet of a topic that was created a moment ago.
TOPIC_WAIT_MS = 10_000
# Metadata is asked for again after this time, so that added partitions are noticed. Kafka's metadata.max.age.ms.
METADATA_AGE_MS_MAX = 300_000

NO_LEADER = NodeId(-1)

A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R", bound=Response)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    index: int
    leader: NodeId
    leader_epoch: int
    replicas: tuple[NodeId, ...]
    in_sync_replicas: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: TopicName
    id: TopicId
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class Cluster:
    """`bootstrap` is "host:port,host:port": any of these brokers tells the addresses of all others.

    If the first connection fails, that is an error at once. After a broker was reached, temporary errors are retried
    for `timeout_ms`.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        security: Security = PLAINTEXT,
        client_id: str = CLIENT_ID,
        timeout_ms: int = TIMEOUT_MS,
        topic_wait_ms: int = TOPIC_WAIT_MS,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.clock = clock or SystemClock()
        self.sleep = sleep
        self._bootstrap = _parse(bootstrap)
        self._security = security
        self._client_id = client_id
        self._topic_wait_ms = topic_wait_ms
        self._response_bytes_max = response_bytes_max
        self._connections: dict[tuple[Endpoint, bool], BrokerConnection] = {}
        self._nodes: dict[NodeId, Endpoint] = {}
        self._topics: dict[str, tuple[TopicDescription, int]] = {}
        self._was_reached = False

    # -- metadata

    def topic(self, name: str, *, create: bool = False) -> TopicDescription:
        """Describe a topic, from the cache if it is young enough. `create` lets a broker with auto.create.topics.enable
        create it."""
        known = self._topics.get(name)
        if known is not None and self.clock.monotonic_ms() - known[1] < METADATA_AGE_MS_MAX:
            return known[0]
        backoff = self.backoff(self._topic_wait_ms)
        while True:
            error: ClientError = UnknownTopic(f"topic {name!r} does not exist")
            try:
                for found in self.topics([name], create=create):
                    return found
            except Refused as refusal:
                if refusal.code == ErrorCode.LEADER_NOT_AVAILABLE:
                    error = refusal
                elif refusal.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
            backoff.pause(error)

    def topics(self, names: Collection[str] | None = None, *, create: bool = False) -> list[TopicDescription]:
        """Ask a broker to describe these topics (None: all). A named topic that does not exist is an error."""
        response = self.metadata(names, create=create)
        if names is None:
            # A topic that is just being created or deleted comes with an error, which must not hide the other topics.
            described = [topic for topic in response.topics if topic.error_code == ErrorCode.NONE and topic.partitions]
        else:
            described = [topic for topic in response.topics if topic.name in names]
        found = [_describe(topic) for topic in described]
        now_ms = self.clock.monotonic_ms()
        for topic in found:
            self._topics[topic.name] = topic, now_ms
        return found

    def metadata(self, names: Collection[str] | None = (), *, create: bool = False) -> MetadataResponse:
        """Ask for the brokers and for the topics of these names (None: all topics)."""
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
        response = self.retrying(lambda: self._any().call(request, MetadataResponse))
        check(response.error_code, "the broker refused to describe the cluster")
        self._nodes = {NodeId(node.node_id): Endpoint(node.host, node.port) for node in response.brokers}
        return response

    def topic_names(self, ids: Iterable[TopicId]) -> dict[TopicId, TopicName]:
        """Look up topic names by id. Ids that the broker does not know are left out."""
        topics = [MetadataRequestTopic(topic_id=each, name=None) for each in ids]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = self.retrying(lambda: self._any().call(request, MetadataResponse))
        return {
            TopicId(topic.topic_id): TopicName(topic.name)
            for topic in response.topics
            if topic.name and topic.error_code == ErrorCode.NONE
        }

    def forget(self, topics: Iterable[str]) -> None:
        """Drop the cached metadata of these topics because it proved stale."""
        for topic in topics:
            self._topics.pop(topic, None)

    def partition(self, partition: TopicPartition) -> PartitionDescription:
        partitions = self.topic(partition.topic).partitions
        if partition.partition >= len(partitions):
            # The partition may have been added after the metadata was cached.
            self.forget([partition.topic])
            partitions = self.topic(partition.topic).partitions
        if not 0 <= partition.partition < len(partitions):
            raise UnknownTopic(
                f"topic {partition.topic!r} has partitions 0 to {len(partitions) - 1}, not {partition.partition}"
            )
        return partitions[partition.partition]

    def leader(self, partition: TopicPartition) -> NodeId:
        leader = self.partition(partition).leader
        if leader == NO_LEADER:
            self.forget([partition.topic])
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")
        return leader

    # -- requests

    def node(self, node: NodeId) -> BrokerConnection:
        endpoint = self._nodes.get(node)
        if endpoint is None:
            raise ConnectionLost(f"broker {node} is not there any more")
        return self.connection(endpoint)

    def connection(self, endpoint: Endpoint, *, is_dedicated: bool = False) -> BrokerConnection:
        """Return the open connection to a broker, or open one.

        There is one shared connection per broker, and a second one with `is_dedicated`. A broker answers the requests
        of a connection in order, so on the shared one an answer could wait for a long poll that was sent before it.
        """
        connection = self._connections.get((endpoint, is_dedicated))
        if connection is None or connection.is_closed:
            connection = self._connections[endpoint, is_dedicated] = BrokerConnection(
                endpoint,
                security=self._security,
                client_id=self._client_id,
                timeout_ms=self.timeout_ms,
                response_bytes_max=self._response_bytes_max,
                clock=self.clock,
            )
            self._was_reached = True
        return connection

    def ask_any(self, request: Request, response: type[R], read: Callable[[R], T]) -> T:
        """Ask any broker. `read` extracts the result from the response, or raises the error that the response holds."""
        return self.retrying(lambda: read(self._any().call(request, response)))

    def ask_controller(self, request: Request, response: type[R], read: Callable[[R], T]) -> T:
        """Like `ask_any`, for requests that change the cluster: they go to the controller, or to the broker that is
        named in its place and forwards them."""

        def ask() -> T:
            controller = NodeId(self.metadata().controller_id)
            connection = self.node(controller) if controller in self._nodes else self._any()
            return read(connection.call(request, response))

        return self.retrying(ask)

    def ask_leaders(
        self,
        asked: Mapping[TopicPartition, T],
        ask: Callable[[BrokerConnection, Mapping[TopicPartition, T]], Iterable[tuple[TopicPartition, int, A]]],
    ) -> dict[TopicPartition, A]:
        """Ask each partition's leader, and its new leader if leadership has moved meanwhile.

        `ask` sends the questions for one leader's partitions, and yields an error code and an answer for each of them.
        """
        answers: dict[TopicPartition, A] = {}

        def ask_remaining() -> dict[TopicPartition, A]:
            remaining: dict[NodeId, dict[TopicPartition, T]] = {}
            for partition, question in asked.items():
                if partition not in answers:
                    remaining.setdefault(self.leader(partition), {})[partition] = question
            try:
                for node, questions in remaining.items():
                    for partition, code, answer in ask(self.node(node), questions):
                        check(code, f"partition {partition}")
                        answers[partition] = answer
            except ClientError:
                self.forget(partition.topic for partition in asked)
                raise
            missing = asked.keys() - answers.keys()
            if missing:
                raise ClientError(f"the broker's answer leaves out {min(missing)}")
            return answers

        return self.retrying(ask_remaining)

    def retrying(self, action: Callable[[], T]) -> T:
        backoff = self.backoff(self.timeout_ms)
        while True:
            try:
                return action()
            except ClientError as error:
                if not self.should_retry(error):
                    raise
                backoff.pause(error)

    def should_retry(self, error: ClientError) -> bool:
        """Whether a retry makes sense. As long as no broker was ever reached, it does not: most likely the address is
        wrong."""
        return error.is_retriable and self._was_reached

    def backoff(self, timeout_ms: int) -> Backoff:
        return Backoff(timeout_ms, self.clock, self.sleep)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- connections

    def _any(self) -> BrokerConnection:
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        failures: list[ConnectionLost] = []
        for endpoint in dict.fromkeys((*self._nodes.values(), *self._bootstrap)):
            try:
                return self.connection(endpoint)
            except ConnectionLost as error:
                failures.append(error)
        raise failures[0]


def _parse(bootstrap: str) -> list[Endpoint]:
    endpoints = [Endpoint.parse(part) for part in bootstrap.split(",")]
    for endpoint in endpoints:
        if not endpoint.host or not endpoint.port:
            raise ConfigError(f"{endpoint} in the bootstrap list has no host or no port to connect to")
    return endpoints


def _describe(topic: MetadataResponseTopic) -> TopicDescription:
    name = topic.name or ""
    check(topic.error_code, f"topic {name!r}")
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    if not partitions or [partition.partition_index for partition in partitions] != list(range(len(partitions))):
        # While a topic is being created or deleted, a broker may know only some of its partitions.
        raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r}")
    return TopicDescription(
        TopicName(name),
        TopicId(topic.topic_id),
        topic.is_internal,
        tuple(
            PartitionDescription(
                partition.partition_index,
                NodeId(partition.leader_id),
                partition.leader_epoch,
                tuple(map(NodeId, partition.replica_nodes)),
                tuple(map(NodeId, partition.isr_nodes)),
            )
            for partition in partitions
        ),
    )
