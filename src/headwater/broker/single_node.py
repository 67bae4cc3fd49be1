"""Leadership where there is one node: it leads, coordinates and controls everything."""

from collections.abc import Sequence

from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.ports.leadership import NO_LEADER, Node, PartitionReplicas
from headwater.coordination.catalog.machine import CatalogMachine
from headwater.endpoint import Endpoint
from headwater.ids import NodeId, TopicId, TopicPartition


class SingleNode:
    def __init__(
        self, node_id: NodeId, rack: str | None, catalog: CatalogMachine, partitions: HostedPartitions
    ) -> None:
        self.node_id = self.controller_id = node_id
        self._rack = rack
        self._racks = frozenset({rack}) if rack else frozenset[str]()
        self._catalog = catalog
        self._partitions = partitions
        self._this: Sequence[NodeId] = (node_id,)
        self._endpoints: dict[str, Endpoint] = {}

    def advertise(self, listener: str, endpoint: Endpoint) -> None:
        self._endpoints[listener] = endpoint

    def nodes(self, listener: str) -> Sequence[Node]:
        return (Node(self.node_id, self._endpoints[listener], self._rack),)

    def node_ids(self) -> Sequence[NodeId]:
        return self._this

    def replicas_of(self, identity: TopicPartition) -> PartitionReplicas:
        partition = self._partitions.find(identity)
        if partition is None or not partition.is_online:
            epoch = -1 if partition is None else partition.leader_epoch
            return PartitionReplicas(NO_LEADER, epoch, self._this, (), self._this)
        return PartitionReplicas(self.node_id, partition.leader_epoch, self._this, self._this, ())

    def in_sync_count(self, identity: TopicPartition) -> int:  # noqa: ARG002 (it is the same for each)
        return len(self._this)

    def coordinator(self, log: TopicPartition, listener: str) -> Node:  # noqa: ARG002 (it is the same for each)
        (node,) = self.nodes(listener)
        return node

    def coordinator_epoch(self, log: TopicPartition) -> int:  # noqa: ARG002 (it is the same for each)
        # The only node is never replaced as coordinator.
        return 0

    def racks_of(self, topic_id: TopicId, partition: int) -> frozenset[str]:
        topic = self._catalog.by_id.get(topic_id)
        return self._racks if topic is not None and 0 <= partition < topic.partition_count else frozenset()
