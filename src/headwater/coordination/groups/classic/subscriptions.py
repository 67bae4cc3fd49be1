"""The topics that consumers of a classic group subscribe to: to the group itself their metadata is but bytes."""

from collections.abc import Iterable

from headwater.errors import ProtocolError
from headwater.ids import TopicName
from headwater.protocol.consumer_protocol import read_subscription


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[TopicName] | None:
    """None where one of them cannot be read, for then any topic may be among them."""
    topics: set[TopicName] = set()
    try:
        for subscription in subscriptions:
            topics.update(read_subscription(subscription).topics)
    except ProtocolError:
        return None
    return frozenset(topics)
