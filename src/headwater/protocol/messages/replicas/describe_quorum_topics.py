"""What a request of DescribeQuorum names. In Kafka, structures of the response have the same names."""

from headwater.protocol.wire.codec import Struct, int32


class PartitionData(Struct):
    partition_index: int32


class TopicData(Struct):
    topic_name: str
    partitions: list[PartitionData]
