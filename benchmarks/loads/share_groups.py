"""A queue is a topic with one partition and a share group of its name: librdkafka's producer and share consumers."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import (  # pyright: ignore[reportPrivateImportUsage]
    KafkaException,
    Message,
    ShareConsumer,
    TopicPartition,
)

from benchmarks.clients import PREPARE_TIMEOUT_S, Outcome
from benchmarks.loads import librdkafka
from benchmarks.loads.queues import TAKEN_MAX, WAIT_MS
from benchmarks.topics import create_topic
from headwater.client.connection import BrokerConnection
from headwater.client.errors import check
from headwater.endpoint import Endpoint
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.shares.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

GROUP_RESOURCE = 32
SET = 0
JOIN_POLL_S = 0.02
LOG_ERRORS = 3


def create(address: str, queue: str, settings: Mapping[str, str]) -> None:
    create_topic(address, queue, 1, settings)
    first = AlterableConfig(name="share.auto.offset.reset", config_operation=SET, value="earliest")
    group = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=queue, configs=[first])
    with BrokerConnection(Endpoint.parse(address)) as connection:
        request = IncrementalAlterConfigsRequest(resources=[group])
        [response] = connection.call(request, IncrementalAlterConfigsResponse).responses
    check(response.error_code, f"group {queue}", response.error_message)


def publish(ready: Callable[[], None], address: str, queue: str, records: int, record_bytes: int) -> Outcome:
    return librdkafka.produce(ready, address, queue, records, record_bytes)


def publish_at_rate(ready: Callable[[], None], address: str, queue: str, rate: int, seconds: float) -> Outcome:
    return librdkafka.produce_at_rate(ready, address, queue, rate, seconds)


@contextmanager
def open_consumer(address: str, queue: str, consumers: int) -> Generator["_Consumer"]:
    settings = {
        "bootstrap.servers": address,
        "group.id": queue,
        "share.acknowledgement.mode": "explicit",
        "max.poll.records": TAKEN_MAX,
        # It warns that librdkafka's share consumer is a preview.
        "log_level": LOG_ERRORS,
    }
    with ShareConsumer(settings) as share_consumer:
        share_consumer.subscribe([queue])
        consumer = _Consumer(share_consumer)
        deadline = time.monotonic() + PREPARE_TIMEOUT_S
        with BrokerConnection(Endpoint.parse(address)) as connection:
            # Nothing is published yet. A member joins while it polls.
            while not _have_joined(connection, queue, consumers):
                share_consumer.poll(JOIN_POLL_S)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{consumers} members did not join in time")
        yield consumer


class _Consumer:
    def __init__(self, consumer: ShareConsumer) -> None:
        self._consumer = consumer
        self._messages: Sequence[Message] = ()
        consumer.set_acknowledgement_commit_callback(_acknowledged)

    def receive(self) -> Sequence[bytes]:
        self._messages = list(self._consumer.poll(WAIT_MS / 1000))
        return librdkafka.values_of(self._messages)

    def acknowledge(self) -> None:
        for message in self._messages:
            self._consumer.acknowledge(message)

    def settle(self) -> None:
        for partition, error in self._consumer.commit_sync().items():
            if error is not None:
                raise RuntimeError(f"{partition}: {error}")


def _acknowledged(offsets: Mapping[TopicPartition, set[int]], error: KafkaException | None) -> None:
    if error is not None:
        raise RuntimeError(f"{offsets}: {error}")


def _have_joined(connection: BrokerConnection, group: str, members: int) -> bool:
    request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    [described] = connection.call(request, ShareGroupDescribeResponse).groups
    return sum(bool(member.assignment.topic_partitions) for member in described.members) == members
