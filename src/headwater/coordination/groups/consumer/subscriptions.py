"""Which topics a group is subscribed to: by name, and by regular expressions, which the broker resolves.

Matching all topics blocks the loop, so the size of expressions (`patterns`) and their number are bounded.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from headwater.coordination.catalog.topic_names import is_internal
from headwater.coordination.groups.consumer.events import RegexResolved
from headwater.coordination.groups.terms import TopicImage
from headwater.coordination.patterns import whole_matcher
from headwater.ids import TopicId, TopicName

# Per group. As a rule all of its members have the same expression.
REGEXES_MAX = 20
MATCHES_KEPT = 1 << 16
# The hash of an empty set of topics, as in Kafka.
NO_METADATA_HASH = 0


class TopicSubscription(NamedTuple):
    topic_names: frozenset[TopicName]
    topic_regex: str | None


NO_SUBSCRIPTION = TopicSubscription(frozenset(), None)

# The number of members with each subscription. Most groups have one subscription, so it is evaluated once.
Subscribers: TypeAlias = Mapping[TopicSubscription, int]
Regexes: TypeAlias = Mapping[str, RegexResolved]


def resubscribe(
    subscribers: Subscribers, removed: Iterable[TopicSubscription], added: Iterable[TopicSubscription]
) -> dict[TopicSubscription, int]:
    counts = dict(subscribers)
    for subscription in removed:
        counts[subscription] -= 1
        if not counts[subscription]:
            del counts[subscription]
    for subscription in added:
        counts[subscription] = counts.get(subscription, 0) + 1
    return counts


def regexes_of(subscribers: Subscribers) -> set[str]:
    return {subscription.topic_regex for subscription in subscribers if subscription.topic_regex is not None}


def topic_names_of(subscription: TopicSubscription, regexes: Regexes) -> frozenset[TopicName]:
    if subscription.topic_regex is None:
        return subscription.topic_names
    # After a crash the topics of an expression may be missing: it matches none until it is resolved again.
    resolved = regexes.get(subscription.topic_regex)
    return subscription.topic_names | resolved.topics if resolved is not None else subscription.topic_names


def topic_ids_of(subscription: TopicSubscription, regexes: Regexes, topics: TopicImage) -> frozenset[TopicId]:
    by_name = topics.by_name
    return frozenset(by_name[name].id for name in topic_names_of(subscription, regexes) if name in by_name)


def subscribed_names(subscribers: Subscribers, regexes: Regexes) -> frozenset[TopicName]:
    return frozenset[TopicName]().union(*(topic_names_of(subscription, regexes) for subscription in subscribers))


def resolve(regex: str, topics: TopicImage) -> frozenset[TopicName]:
    """The topics whose whole name matches, except internal ones."""
    whole_matcher(regex)
    return frozenset(name for name in topics.by_name if not is_internal(name) and _matches(regex, name))


def metadata_hash(names: Iterable[TopicName], topics: TopicImage) -> int:
    """Changes when a topic is created, deleted, grows or moves. Stable across restarts, because it is stored."""
    # Imported on first use: it loads OpenSSL.
    from hashlib import blake2b  # noqa: PLC0415

    digest = blake2b(digest_size=8)
    by_name = topics.by_name
    existing = sorted(name for name in names if name in by_name)
    for name in existing:
        topic = by_name[name]
        racks = [",".join(sorted(topics.racks(topic.id, partition))) for partition in range(topic.partition_count)]
        digest.update(f"{name}/{topic.id}/{topic.partition_count}/{';'.join(racks)}\n".encode())
    return int.from_bytes(digest.digest(), signed=True) if existing else NO_METADATA_HASH


# When a topic is created or deleted, every expression of every group is resolved again, mostly against the same names.
@lru_cache(maxsize=MATCHES_KEPT)
def _matches(regex: str, name: str) -> bool:
    return whole_matcher(regex)(name) is not None
