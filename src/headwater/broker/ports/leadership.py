"""Who leads what. The broker and its listeners ask this port and never assume that the answer is "this node"."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headwater.endpoint import Endpoint
from headwater.ids import NodeId, TopicId, TopicPartition

NO_LEADER = NodeId(-1)


class Node(NamedTuple):
    """A broker of the cluster, as clients of one listener reach it."""

    id: NodeId
    endpoint: Endpoint
    rack: str | None


class PartitionReplicas(NamedTuple):
    """Which nodes hold a partition. `leader` is NO_LEADER while none can lead it."""

    leader: NodeId
    leader_epoch: int
    replicas: Sequence[NodeId]
    in_sync: Sequence[NodeId]
    offline: Sequence[NodeId]
    # KIP-966: replicas outside of the ISR that may be elected without losing records.
    eligible: Sequence[NodeId] = ()


class Leadership(Protocol):
    @property
    def node_id(self) -> NodeId:
        """This node."""
        ...

    @property
    def controller_id(self) -> NodeId: ...

    def advertise(self, listener: str, endpoint: Endpoint) -> None:
        """A listener of this node says where its clients reach it."""
        ...

    def nodes(self, listener: str) -> Sequence[Node]:
        """The brokers that clients of the listener can reach."""
        ...

    def node_ids(self) -> Sequence[NodeId]:
        """Every broker that can hold replicas."""
        ...

    def replicas_of(self, identity: TopicPartition) -> PartitionReplicas: ...

    def in_sync_count(self, identity: TopicPartition) -> int:
        """The number of in-sync replicas that acks=all waits for. Called for every such batch."""
        ...

    def coordinator(self, log: TopicPartition, listener: str) -> Node:
        """The node whose machine over that internal partition decides; a Refusal while there is none."""
        ...

    def coordinator_epoch(self, log: TopicPartition) -> int:
        """How often another node took over as that coordinator; decisions of earlier ones are fenced."""
        ...

    def racks_of(self, topic_id: TopicId, partition: int) -> frozenset[str]:
        """The racks that hold a replica; empty where they are not known."""
        ...
