"""The requests among brokers for the state of a share-partition (keys 83 to 87) over the raw client."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from headwater.protocol.messages.shares.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartition,
    DeleteShareGroupStateRequestTopic,
    DeleteShareGroupStateResponse,
    DeleteShareGroupStateResponsePartition,
)
from headwater.protocol.messages.shares.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartition,
    InitializeShareGroupStateRequestTopic,
    InitializeShareGroupStateResponse,
    InitializeShareGroupStateResponsePartition,
)
from headwater.protocol.messages.shares.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartition,
    ReadShareGroupStateRequestTopic,
    ReadShareGroupStateResponse,
    ReadShareGroupStateResponsePartition,
)
from headwater.protocol.messages.shares.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartition,
    ReadShareGroupStateSummaryRequestTopic,
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryResponsePartition,
)
from headwater.protocol.messages.shares.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartition,
    WriteShareGroupStateRequestTopic,
    WriteShareGroupStateResponse,
    WriteShareGroupStateResponsePartition,
    WriteStateBatch,
)
from tests.support.kafka.raw_client import RawClient


class Batch(NamedTuple):
    first: int
    last: int
    state: int
    count: int


class ShareStates:
    """One share-partition as another broker sees it."""

    def __init__(self, client: RawClient, group: str, topic_id: UUID, partition: int = 0) -> None:
        self.client = client
        self.group = group
        self.topic_id = topic_id
        self.partition = partition

    def initialize(self, state_epoch: int, start_offset: int) -> InitializeShareGroupStateResponsePartition:
        asked = InitializeShareGroupStateRequestPartition(
            partition=self.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = InitializeShareGroupStateRequestTopic(topic_id=self.topic_id, partitions=[asked])
        request = InitializeShareGroupStateRequest(group_id=self.group, topics=[topic])
        ((told,),) = (
            each.partitions for each in self.client.ask(request, InitializeShareGroupStateResponse, 0).results
        )
        return told

    def read(self, leader_epoch: int) -> ReadShareGroupStateResponsePartition:
        asked = ReadShareGroupStateRequestPartition(partition=self.partition, leader_epoch=leader_epoch)
        topic = ReadShareGroupStateRequestTopic(topic_id=self.topic_id, partitions=[asked])
        request = ReadShareGroupStateRequest(group_id=self.group, topics=[topic])
        ((told,),) = (each.partitions for each in self.client.ask(request, ReadShareGroupStateResponse, 0).results)
        return told

    def write(
        self,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: Sequence[tuple[int, int, int, int]] = (),
        complete_count: int = -1,
    ) -> WriteShareGroupStateResponsePartition:
        asked = WriteShareGroupStateRequestPartition(
            partition=self.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            state_batches=[
                WriteStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        topic = WriteShareGroupStateRequestTopic(topic_id=self.topic_id, partitions=[asked])
        request = WriteShareGroupStateRequest(group_id=self.group, topics=[topic])
        ((told,),) = (each.partitions for each in self.client.ask(request, WriteShareGroupStateResponse, 1).results)
        return told

    def delete(self) -> DeleteShareGroupStateResponsePartition:
        asked = DeleteShareGroupStateRequestPartition(partition=self.partition)
        topic = DeleteShareGroupStateRequestTopic(topic_id=self.topic_id, partitions=[asked])
        request = DeleteShareGroupStateRequest(group_id=self.group, topics=[topic])
        ((told,),) = (each.partitions for each in self.client.ask(request, DeleteShareGroupStateResponse, 0).results)
        return told

    def summary(self, leader_epoch: int = -1) -> ReadShareGroupStateSummaryResponsePartition:
        asked = ReadShareGroupStateSummaryRequestPartition(partition=self.partition, leader_epoch=leader_epoch)
        topic = ReadShareGroupStateSummaryRequestTopic(topic_id=self.topic_id, partitions=[asked])
        request = ReadShareGroupStateSummaryRequest(group_id=self.group, topics=[topic])
        ((told,),) = (
            each.partitions for each in self.client.ask(request, ReadShareGroupStateSummaryResponse, 1).results
        )
        return told
