"""The things that have settings: topics and this broker. What DescribeConfigs and both AlterConfigs share."""

from collections.abc import Mapping
from enum import IntEnum

from headwater.broker.broker import Broker
from headwater.broker.catalog import Change
from headwater.errors import ErrorCode, KafkaError


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


def current_overrides(broker: Broker, resource_type: int, name: str) -> Mapping[str, str]:
    """What was set for the resource itself; an unknown resource is refused as Kafka does."""
    match resource_type:
        case ResourceType.TOPIC:
            broker.catalog.topics.check_name(name)
            return broker.catalog.topics.existing(name).overrides
        case ResourceType.BROKER:
            check_broker_name(broker, name)
            return broker.catalog.topics.broker_overrides
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource_type} has no settings here")


async def change_overrides(
    broker: Broker, resource_type: int, name: str, change: Change, *, validate_only: bool
) -> None:
    if resource_type == ResourceType.TOPIC:
        await broker.catalog.configure(name, change, validate_only=validate_only)
    else:
        await broker.configure_broker(change, validate_only=validate_only)


def check_broker_name(broker: Broker, name: str) -> None:
    """The empty name stands for the defaults of all brokers, which are this one's."""
    if name not in ("", str(broker.config.node_id)):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"broker '{name[:40]}' is not here, this is broker {broker.config.node_id}"
        )
