"""A broker whose group says what a test tells it to: heartbeats are answered by a script, offsets are kept."""

from collections.abc import Callable, Mapping
from uuid import UUID

from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches import batch
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.cluster.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.protocol.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headwater.protocol.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headwater.protocol.messages.records.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headwater.protocol.messages.records.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headwater.protocol.wire.codec import Request, Response
from tests.support.client.scripted import ScriptedBroker

GROUP = "readers"
INTERVAL_MS = 5_000


def topic_id(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16, b"."))


def beat(
    epoch: int, assigned: Mapping[str, list[int]] | None = None, code: ErrorCode = ErrorCode.NONE
) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if assigned is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id(name), partitions=indexes) for name, indexes in assigned.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=code, member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS, assignment=assignment
    )


def found(broker: ScriptedBroker, code: ErrorCode = ErrorCode.NONE) -> FindCoordinatorResponse:
    host, port = broker.endpoint
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key=GROUP, node_id=1, host=host, port=port, error_code=code, error_message=None)]
    )


class ScriptedGroup(ScriptedBroker):
    """Leads all partitions of `topics`, each of which holds ten records, and coordinates every group.

    `beats` are the answers to heartbeats in turn; after them there is nothing new. None hangs up.
    """

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        self.topics = dict(topics or {"orders": 2})
        self.ends = {
            TopicPartition(TopicName(name), index): 10 for name, count in self.topics.items() for index in range(count)
        }
        self.starts = dict.fromkeys(self.ends, 0)
        self.beats: list[ConsumerGroupHeartbeatResponse | None] = []
        self.committed: dict[TopicPartition, int] = {}
        self.commit_codes: list[ErrorCode] = []
        super().__init__(
            {
                FindCoordinatorRequest: lambda _: found(self),
                MetadataRequest: self._on(MetadataRequest, self._describe),
                ConsumerGroupHeartbeatRequest: self._on(ConsumerGroupHeartbeatRequest, self._beat),
                OffsetFetchRequest: self._on(OffsetFetchRequest, self._fetch_offsets),
                OffsetCommitRequest: self._on(OffsetCommitRequest, self._commit),
                ListOffsetsRequest: self._on(ListOffsetsRequest, self._list_offsets),
                FetchRequest: self._on(FetchRequest, self._fetch),
            }
        )

    @property
    def heartbeats(self) -> list[ConsumerGroupHeartbeatRequest]:
        return [request for request in self.requests if isinstance(request, ConsumerGroupHeartbeatRequest)]

    @property
    def commits(self) -> list[OffsetCommitRequest]:
        return [request for request in self.requests if isinstance(request, OffsetCommitRequest)]

    def _on(self, kind: type, answer: Callable[..., Response | None]) -> Callable[[Request], Response | None]:
        def script(request: Request) -> Response | None:
            assert isinstance(request, kind)
            return answer(request)

        return script

    def _beat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | None:
        return self.beats.pop(0) if self.beats else beat(request.member_epoch)

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        names = list(self.topics)
        unknown: list[MetadataResponseTopic] = []
        if request.topics is not None:
            ids = {topic_id(name): name for name in self.topics}
            asked = [topic.name if topic.name is not None else ids.get(topic.topic_id) for topic in request.topics]
            names = [name for name in asked if name in self.topics]
            unknown = [
                MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, topic_id=topic_id("?"), partitions=[]
                )
                for name in asked
                if name not in self.topics
            ]
        host, port = self.endpoint
        known = [
            MetadataResponseTopic(
                name=name,
                topic_id=topic_id(name),
                partitions=[
                    MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
                    for index in range(self.topics[name])
                ],
            )
            for name in names
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=host, port=port)],
            cluster_id="scripted",
            controller_id=1,
            topics=known + unknown,
        )

    def _fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (group,) = request.groups
        asked = {topic.name: topic.partition_indexes for topic in group.topics or ()}
        if group.topics is None:
            for name, index in self.committed:
                asked.setdefault(name, []).append(index)
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=self.committed.get(TopicPartition(TopicName(name), index), -1),
                        metadata=None,
                        error_code=0,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in asked.items()
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)])

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Refused as a whole with the next of `commit_codes`, and in part where a topic is unknown."""
        code = self.commit_codes.pop(0) if self.commit_codes else ErrorCode.NONE

        def one(name: str, index: int, offset: int) -> OffsetCommitResponsePartition:
            answer = code if name in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if answer == ErrorCode.NONE:
                self.committed[TopicPartition(TopicName(name), index)] = offset
            return OffsetCommitResponsePartition(partition_index=index, error_code=answer)

        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        one(topic.name, each.partition_index, each.committed_offset) for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        def offset(name: str, index: int, timestamp: int) -> ListOffsetsPartitionResponse:
            partition = TopicPartition(TopicName(name), index)
            found = (self.starts if timestamp == -2 else self.ends)[partition]
            return ListOffsetsPartitionResponse(partition_index=index, offset=found, timestamp=-1)

        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[offset(topic.name, each.partition_index, each.timestamp) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        def data(name: str, index: int, offset: int) -> PartitionData:
            partition = TopicPartition(TopicName(name), index)
            if name not in self.topics:
                return PartitionData(
                    partition_index=index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    high_watermark=-1,
                    records=None,
                )
            start, end = self.starts[partition], self.ends[partition]
            if not start <= offset <= end:
                return PartitionData(
                    partition_index=index, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1, records=None
                )
            records = [Record(each, 0, None, b"%d" % each) for each in range(offset, end)]
            return PartitionData(
                partition_index=index,
                high_watermark=end,
                records=bytes(batch.build(records, base_offset=offset)) if records else b"",
            )

        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=[data(topic.topic, each.partition, each.fetch_offset) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )
