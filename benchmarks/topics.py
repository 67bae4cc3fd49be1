"""What a case needs of a broker before and after its load: a topic, and how far its partitions reach."""

from collections.abc import Mapping

from headwater.client.connection import Connection
from headwater.client.errors import check
from headwater.endpoint import Endpoint
from headwater.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
# Newer versions may ask for offsets that not every broker keeps.
LIST_OFFSETS_VERSION = 5


def create_topic(address: str, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )
    with Connection(Endpoint.parse(address)) as connection:
        response = connection.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    for result in response.topics:
        check(result.error_code, f"topic {name}", result.error_message)


def record_count(address: str, topic: str, partitions: int) -> int:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    with Connection(Endpoint.parse(address)) as connection:
        response = connection.call(request, ListOffsetsResponse, version_max=LIST_OFFSETS_VERSION)
    count = 0
    for partition in response.topics[0].partitions:
        check(partition.error_code, f"{topic}-{partition.partition_index}")
        count += partition.offset
    return count


def check_record_count(address: str, topic: str, partitions: int, expected: int) -> None:
    """A speed counts only if the broker has every record that it acknowledged, and none twice."""
    found = record_count(address, topic, partitions)
    if found != expected:
        raise RuntimeError(f"{expected} records of {topic} were acknowledged, and the broker has {found}")
