"""Topics with dead letters, and what was put back."""

from collections.abc import Iterable, Sequence
from uuid import uuid4

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import ConsumedRecord
from headwater.client.dead_letters.redrive import RedriveStep
from headwater.client.dead_letters.scan import scan, span_of
from headwater.client.producer import Producer
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.batches.dead_letter_headers import DeadLetterOrigin, Reason
from headwater.protocol.batches.records import Headers
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

GROUP_RESOURCE = 32
GIVEN_UP_MS = 1_700_000_000_000


def letter_topic(cluster: Cluster, partition_count: int = 1, *, origin_partitions: int = 2) -> tuple[str, str]:
    """A new topic and its dead-letter topic."""
    name = f"q-{uuid4().hex}"
    admin = Admin(cluster)
    if origin_partitions:
        admin.create_topic(name, partition_count=origin_partitions)
    settings = {"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "8000000"}
    admin.create_topic(f"{name}.dlq", partition_count=partition_count, settings=settings)
    return name, f"{name}.dlq"


def switch_on(cluster: Cluster, group: str) -> None:
    """Dead letters for a share group, which begins with the oldest record."""
    values = {"headwater.deadletterqueue.enable": "true", "share.auto.offset.reset": "earliest"}
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name=group,
        configs=[AlterableConfig(name=name, config_operation=0, value=value) for name, value in values.items()],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])

    def read(response: IncrementalAlterConfigsResponse) -> None:
        assert [each.error_code for each in response.responses] == [0]

    cluster.ask_any(request, IncrementalAlterConfigsResponse, read)


def origin(topic: str, offset: int, **changes: object) -> DeadLetterOrigin:
    made = DeadLetterOrigin(
        topic, offset % 2, offset, "billing", 5, Reason.EXHAUSTED, GIVEN_UP_MS + offset, GIVEN_UP_MS - 1000, True
    )
    return made._replace(**changes)


def bury(
    cluster: Cluster,
    topic: str,
    origins: Iterable[DeadLetterOrigin],
    *,
    value: bytes | None = None,
    key: bytes | None = b"k",
    headers: Headers = (("trace", b"1"),),
    partition: int = 0,
) -> None:
    """Write dead letters, as a broker would. The value is the offset of the origin unless one is given."""
    with Producer(cluster) as producer:
        for each in origins:
            content = b"%d" % each.offset if value is None else value
            if not each.is_copied:
                producer.send(topic, None, headers=dead_letter_headers.written(each), partition=partition)
                continue
            written = (*headers, *dead_letter_headers.written(each))
            producer.send(topic, content, key=key, headers=written, partition=partition)


def contents(cluster: Cluster, topic: str) -> list[ConsumedRecord]:
    return list(scan(cluster, span_of(cluster, topic)))


def values(cluster: Cluster, topic: str) -> list[int]:
    return sorted(int(each.value or b"-1") for each in contents(cluster, topic))


def totals(steps: Sequence[RedriveStep]) -> tuple[int, int, int]:
    """How many were put back now, how many before, and how many could not be."""
    return (
        sum(each.redriven_count for each in steps),
        sum(each.already_count for each in steps),
        sum(len(each.skipped) for each in steps),
    )
