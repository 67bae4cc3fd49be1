"""Requests of a case before and after its load: creating a topic, and the offsets of its partitions."""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from headwater.client.connection import BrokerConnection
from headwater.client.errors import ClientError, check
from headwater.endpoint import Endpoint
from headwater.protocol.messages.records.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

LATEST = -1
# Newer versions may ask for offsets that not every broker keeps.
LIST_OFFSETS_VERSION = 5
CREATE_TIMEOUT_S = 120.0
RETRY_PAUSE_S = 0.002

T = TypeVar("T")


def create_topic(address: str, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )
    with BrokerConnection(Endpoint.parse(address)) as connection:
        response = connection.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    for result in response.topics:
        check(result.error_code, f"topic {name}", result.error_message)
    # A broker may answer before it leads the partitions, and would refuse early requests.
    retrying(lambda: record_count(address, name, partitions), CREATE_TIMEOUT_S)


def retrying(action: Callable[[], T], timeout_s: float) -> T:
    """Retry while a broker refuses with retriable errors, as every client does."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return action()
        except ClientError as error:
            if not error.is_retriable or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_PAUSE_S)


def record_count(address: str, topic: str, partitions: int) -> int:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    with BrokerConnection(Endpoint.parse(address)) as connection:
        response = connection.call(request, ListOffsetsResponse, version_max=LIST_OFFSETS_VERSION)
    count = 0
    for partition in response.topics[0].partitions:
        check(partition.error_code, f"{topic}-{partition.partition_index}")
        count += partition.offset
    return count


def check_record_count(address: str, topic: str, partitions: int, expected: int, wait_s: float = 0.0) -> None:
    """A rate counts only if the broker has every record that it acknowledged, and none twice. Unacknowledged records
    may take a while to arrive."""
    deadline = time.monotonic() + wait_s
    while (found := record_count(address, topic, partitions)) < expected and time.monotonic() < deadline:
        time.sleep(RETRY_PAUSE_S)
    if found != expected:
        raise RuntimeError(f"{expected} records of {topic} were acknowledged, and the broker has {found}")
