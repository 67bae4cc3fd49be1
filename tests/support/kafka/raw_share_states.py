"""The requests among brokers for the state of a share-partition (keys 83 to 87) over the raw client."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from headwater.protocol.messages.shares import delete_share_group_state as deletion
from headwater.protocol.messages.shares import initialize_share_group_state as initialization
from headwater.protocol.messages.shares import read_share_group_state as reading
from headwater.protocol.messages.shares import read_share_group_state_summary as summary
from headwater.protocol.messages.shares import write_share_group_state as writing
from headwater.protocol.wire.codec import Request, Response
from tests.support.kafka.raw_client import RawClient


class ShareStates:
    """One share-partition as another broker sees it."""

    def __init__(self, client: RawClient, group: str, topic_id: UUID, partition: int = 0) -> None:
        self.client = client
        self.group = group
        self.topic_id = topic_id
        self.partition = partition

    def _ask(self, request: Request, response: type[Response], version: int) -> Any:
        told: Any = self.client.ask(request, response, version)
        ((answer,),) = (topic.partitions for topic in told.results)
        return answer

    def initialize(self, state_epoch: int, start_offset: int) -> initialization.PartitionResult:
        asked = initialization.PartitionData(
            partition=self.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = initialization.InitializeStateData(topic_id=self.topic_id, partitions=[asked])
        request = initialization.InitializeShareGroupStateRequest(group_id=self.group, topics=[topic])
        return self._ask(request, initialization.InitializeShareGroupStateResponse, 0)

    def read(self, leader_epoch: int) -> reading.PartitionResult:
        asked = reading.PartitionData(partition=self.partition, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=self.topic_id, partitions=[asked])
        request = reading.ReadShareGroupStateRequest(group_id=self.group, topics=[topic])
        return self._ask(request, reading.ReadShareGroupStateResponse, 0)

    def write(
        self,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: Sequence[tuple[int, int, int, int]] = (),
        complete_count: int = -1,
    ) -> writing.PartitionResult:
        asked = writing.PartitionData(
            partition=self.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            state_batches=[
                writing.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        topic = writing.WriteStateData(topic_id=self.topic_id, partitions=[asked])
        request = writing.WriteShareGroupStateRequest(group_id=self.group, topics=[topic])
        return self._ask(request, writing.WriteShareGroupStateResponse, 1)

    def delete(self) -> deletion.PartitionResult:
        asked = deletion.PartitionData(partition=self.partition)
        topic = deletion.DeleteStateData(topic_id=self.topic_id, partitions=[asked])
        request = deletion.DeleteShareGroupStateRequest(group_id=self.group, topics=[topic])
        return self._ask(request, deletion.DeleteShareGroupStateResponse, 0)

    def summary(self, leader_epoch: int = -1) -> summary.PartitionResult:
        asked = summary.PartitionData(partition=self.partition, leader_epoch=leader_epoch)
        topic = summary.ReadStateSummaryData(topic_id=self.topic_id, partitions=[asked])
        request = summary.ReadShareGroupStateSummaryRequest(group_id=self.group, topics=[topic])
        return self._ask(request, summary.ReadShareGroupStateSummaryResponse, 1)
