"""A member of a share group over the raw client: one call is one request."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from headwater.coordination.shares.terms import AcknowledgeType
from headwater.errors import ErrorCode
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.shares.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from headwater.protocol.messages.shares.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from headwater.protocol.messages.shares.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from headwater.protocol.messages.shares.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from headwater.protocol.messages.shares.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from headwater.protocol.messages.shares.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from headwater.protocol.messages.shares.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headwater.protocol.wire.codec import Response
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import find

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
RENEW, GAP = AcknowledgeType.RENEW, AcknowledgeType.GAP
INITIAL, FINAL = 0, -1
GROUP_RESOURCE = 32
# Ends when records come; a test that waits this long has failed.
LONG_MS = 20_000


def batches(*said: tuple[int, int, int | Sequence[int]]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(
            first_offset=first,
            last_offset=last,
            acknowledge_types=[types] if isinstance(types, int) else list(types),
        )
        for first, last, types in said
    ]


def configure(client: RawClient, group: str, **settings: str) -> None:
    """Settings are named as in Python: `share_auto_offset_reset="earliest"`."""
    configs = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (response,) = client.ask(request, IncrementalAlterConfigsResponse, 1).responses
    assert response.error_code == 0, response.error_message


def new_group(client: RawClient, **settings: str) -> str:
    """A group that begins with the oldest records, unless the settings say otherwise."""
    group = f"share-{uuid4().hex}"
    configure(client, group, **{"share_auto_offset_reset": "earliest", **settings})
    find(client, group)
    return group


class Member:
    def __init__(self, client: RawClient, group: str, name: str | None = None) -> None:
        self.client = client
        self.group = group
        self.id = name or str(uuid4())
        self.epoch = 0
        self.session_epoch = INITIAL
        self.topic_id = UUID(int=0)

    # -- membership

    def beat(self, *topics: str, epoch: int | None = None, rack: str | None = None) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.epoch if epoch is None else epoch,
            rack_id=rack,
            subscribed_topic_names=list(topics) or None,
        )
        told = self.client.ask(request, ShareGroupHeartbeatResponse, 1)
        if told.error_code == 0:
            self.epoch = max(told.member_epoch, 0)
        return told

    def join(self, topic: str, topic_id: UUID) -> "Member":
        assert self.beat(topic).error_code == ErrorCode.NONE
        self.topic_id = topic_id
        return self

    def leave(self) -> None:
        assert self.beat(epoch=-1).error_code == ErrorCode.NONE

    # -- records

    def fetch_request(
        self,
        said: Mapping[int, Sequence[AcknowledgementBatch]] | None = None,
        *,
        partitions: Sequence[int] = (0,),
        epoch: int | None = None,
        wait_ms: int = LONG_MS,
        records_max: int = 500,
        **options: Any,
    ) -> ShareFetchRequest:
        said = said or {}
        # A session names a partition once.
        named = [*said, *(each for each in partitions if each not in said and self.session_epoch == INITIAL)]
        asked = [
            FetchPartition(partition_index=each, acknowledgement_batches=list(said.get(each, ()))) for each in named
        ]
        topics = [FetchTopic(topic_id=self.topic_id, partitions=asked)]
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": self.session_epoch if epoch is None else epoch,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": records_max,
            "batch_size": records_max,
            "topics": topics if asked else [],
            "forgotten_topics_data": [],
        }
        return ShareFetchRequest(**fields | options)

    def ask(self, *arguments: Any, version: int = 2, **options: Any) -> ShareFetchResponse:
        request = self.fetch_request(*arguments, **options)
        response = self.client.ask(request, ShareFetchResponse, version)
        self._follow(response, request.share_session_epoch)
        return response

    def _follow(self, response: ShareFetchResponse | ShareAcknowledgeResponse, epoch: int) -> None:
        if response.error_code == ErrorCode.NONE:
            self.session_epoch = INITIAL if epoch == FINAL else epoch + 1

    def fetch(self, *arguments: Any, **options: Any) -> list[tuple[int, int, int]]:
        """First and last offset and delivery count of what the member gets."""
        response = self.ask(*arguments, **options)
        assert response.error_code == ErrorCode.NONE, response.error_message
        return acquired(response)

    def acknowledge(
        self,
        *said: tuple[int, int, int | Sequence[int]],
        partition: int = 0,
        epoch: int | None = None,
        version: int = 2,
        **options: Any,
    ) -> ShareAcknowledgeResponse:
        asked = AcknowledgePartition(partition_index=partition, acknowledgement_batches=batches(*said))
        topics = [AcknowledgeTopic(topic_id=self.topic_id, partitions=[asked])] if said else []
        used = self.session_epoch if epoch is None else epoch
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": used,
            "topics": topics,
        }
        request = ShareAcknowledgeRequest(**fields | options)
        response = self.client.ask(request, ShareAcknowledgeResponse, version)
        self._follow(response, used)
        return response

    def settle(self, *said: tuple[int, int, int | Sequence[int]], **options: Any) -> ErrorCode:
        """The error code of one partition's acknowledgement."""
        response = self.acknowledge(*said, **options)
        assert response.error_code == ErrorCode.NONE, response.error_message
        ((partition,),) = (topic.partitions for topic in response.responses)
        return ErrorCode(partition.error_code)


def acquired(response: ShareFetchResponse) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for topic in response.responses:
        for partition in topic.partitions:
            assert partition.error_code == ErrorCode.NONE, partition.error_message
            assert partition.acknowledge_error_code == ErrorCode.NONE, partition.acknowledge_error_message
            found += [(each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records]
    return found


def describe(client: RawClient, group: str) -> DescribedGroup:
    request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    (described,) = client.ask(request, ShareGroupDescribeResponse, 1).groups
    return described


def describe_offsets(client: RawClient, group: str) -> DescribeShareGroupOffsetsResponseGroup:
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    (described,) = client.ask(request, DescribeShareGroupOffsetsResponse, 1).groups
    return described


def offsets_of(client: RawClient, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Start offset and lag of every partition that the group has begun with."""
    described = describe_offsets(client, group)
    assert described.error_code == ErrorCode.NONE, described.error_message
    return {
        (topic.topic_name, each.partition_index): (each.start_offset, each.lag)
        for topic in described.topics
        for each in topic.partitions
    }


def alter_offset(client: RawClient, group: str, topic: str, offset: int) -> AlterShareGroupOffsetsResponse:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    asked = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[partition])
    return client.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=[asked]), AlterShareGroupOffsetsResponse, 0)


def delete_offsets(client: RawClient, group: str, topic: str) -> DeleteShareGroupOffsetsResponse:
    asked = DeleteShareGroupOffsetsRequestTopic(topic_name=topic)
    request = DeleteShareGroupOffsetsRequest(group_id=group, topics=[asked])
    return client.ask(request, DeleteShareGroupOffsetsResponse, 0)


def error_of(response: Response) -> ErrorCode:
    return ErrorCode(response.error_code)  # pyright: ignore[reportAttributeAccessIssue]
