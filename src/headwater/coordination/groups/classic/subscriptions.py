"""The topics that consumers of a classic group subscribe to. The group itself treats their metadata as opaque bytes."""

from collections.abc import Iterable

from headwater.errors import ProtocolError
from headwater.ids import TopicName
from headwater.protocol.consumer_protocol import read_subscription


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[TopicName] | None:
    """None if a subscription cannot be read, because it may then contain any topic."""
    topics: set[TopicName] = set()
    try:
        for subscription in subscriptions:
            topics.update(read_subscription(subscription).topics)
    except ProtocolError:
        return None
    return frozenset(topics)
