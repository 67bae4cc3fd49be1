"""What administrators do to replicas: elect leaders, move replicas to other nodes or directories.

A single node leads all of its partitions and has nowhere to move them, so that most of these requests change nothing.
"""

from collections.abc import Sequence
from enum import IntEnum

from headwater.broker.ports.leadership import NO_LEADER, Leadership
from headwater.broker.topics import Topics
from headwater.errors import ErrorCode, Refusal
from headwater.ids import NodeId, TopicName, TopicPartition
from headwater.storage.data_directory import DataDirectory

# While a replica moves, Kafka adds 32 hexadecimal digits and two words to the name of its directory.
_MOVED_NAME_LENGTH_MAX = 255
_MOVED_SUFFIX_LENGTH = len(".-future") + 32


class ElectionType(IntEnum):
    """By Kafka's numbers: the first replica becomes the leader, or any replica if there is no leader."""

    PREFERRED = 0
    UNCLEAN = 1


class Replicas:
    def __init__(self, topics: Topics, leadership: Leadership, data: DataDirectory) -> None:
        self._topics = topics
        self._leadership = leadership
        self._data = data

    def check_election(self, topic: str, index: int, kind: ElectionType) -> None:
        """Raise the reason why no other leader is elected."""
        leader = self._leadership.replicas_of(self._existing(topic, index)).leader
        if leader != NO_LEADER:
            raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, f"node {leader} leads {topic}-{index} already")
        if kind is ElectionType.PREFERRED:
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        else:
            code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        raise Refusal(code, f"{topic}-{index} is offline, and no other node holds it")

    def reassign(self, topic: str, index: int, nodes: Sequence[NodeId] | None) -> None:
        """Move the partition to these nodes; None cancels a move that is under way."""
        self._existing(topic, index)
        if nodes is None:
            raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic}-{index} is not being moved")
        self._topics.check_nodes([nodes])

    def move(self, topic: str, index: int, directory: str) -> None:
        """Move the replica of this node to another data directory."""
        if len(f"{topic}-{index}") + _MOVED_SUFFIX_LENGTH > _MOVED_NAME_LENGTH_MAX:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "the name of the topic is too long for a replica to move")
        if directory != str(self._data.root):
            raise Refusal(ErrorCode.LOG_DIR_NOT_FOUND, f"{self._data.root} is the only data directory (log.dir)")
        found = self._topics.find(topic)
        if found is None or not 0 <= index < found.partition_count:
            raise Refusal(ErrorCode.REPLICA_NOT_AVAILABLE, f"this node holds no {topic}-{index}")

    def _existing(self, topic: str, index: int) -> TopicPartition:
        found = self._topics.find(topic)
        if found is None or not 0 <= index < found.partition_count:
            raise self._topics.unknown_partition(topic, index)
        return TopicPartition(TopicName(topic), index)
