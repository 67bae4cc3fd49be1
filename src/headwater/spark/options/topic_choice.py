"""The topics and partitions of a read: `subscribe`, `subscribePattern` or `assign`."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

from headwater.client.cluster import Cluster, TopicDescription
from headwater.client.errors import UnknownTopic
from headwater.errors import ConfigError
from headwater.ids import TopicName, TopicPartition
from headwater.spark.options.bounds import parse_topics
from headwater.spark.options.java_pattern import java_pattern
from headwater.spark.options.options import Options

CHOICES = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Exactly one of the three is set."""

    names: tuple[TopicName, ...] = ()
    # Java's expression in Python's words.
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def find(self, cluster: Cluster, *, missing_allowed: bool = False) -> list[TopicPartition]:
        """Ask the broker for the current partitions: topics grow, are deleted, and new ones match the pattern."""
        if self.pattern is not None:
            wanted = re.compile(self.pattern, re.ASCII)
            topics = [
                topic
                for topic in cluster.topics()
                if not topic.is_internal and wanted.fullmatch(topic.name) is not None
            ]
        else:
            names = self.names or tuple({partition.topic for partition in self.partitions})
            topics = _describe(cluster, names, missing_allowed=missing_allowed)
        found = sorted(TopicPartition(topic.name, each.index) for topic in topics for each in topic.partitions)
        return self._assigned(found, missing_allowed=missing_allowed) if self.partitions else found

    def _assigned(self, found: Collection[TopicPartition], *, missing_allowed: bool) -> list[TopicPartition]:
        existing = set(found)
        for partition in self.partitions:
            if partition not in existing and not missing_allowed:
                raise UnknownTopic(f"option 'assign' names {partition}, which does not exist")
        return [partition for partition in self.partitions if partition in existing]


def _describe(cluster: Cluster, names: Collection[TopicName], *, missing_allowed: bool) -> list[TopicDescription]:
    if missing_allowed:
        return [topic for topic in cluster.topics() if topic.name in names]
    cluster.forget(names)
    return [cluster.topic(name) for name in names]


def topic_choice(options: Options) -> TopicChoice:
    given = [name for name in CHOICES if options.text(name) is not None]
    if len(given) != 1:
        found = " and ".join(map(repr, given)) or "none of them"
        raise ConfigError(f"exactly one of the options {', '.join(CHOICES)} says what to read; given: {found}")
    text = options.text(given[0]) or ""
    match given[0]:
        case "subscribe":
            names = [name.strip() for name in text.split(",")]
            if not all(names):
                raise ConfigError(f"option 'subscribe' is a list of topics such as 'orders,payments', not {text!r}")
            return TopicChoice(names=tuple(TopicName(name) for name in dict.fromkeys(names)))
        case "subscribePattern":
            return TopicChoice(pattern=java_pattern(text, "subscribePattern").pattern)
        case _:
            return TopicChoice(partitions=_parse_assign(text))


def _parse_assign(text: str) -> tuple[TopicPartition, ...]:
    partitions: set[TopicPartition] = set()
    for topic, indexes in parse_topics(text, "assign").items():
        listed = cast("list[Any]", indexes) if isinstance(indexes, list) else []
        if not listed or not all(isinstance(index, int) and index >= 0 for index in listed):
            raise ConfigError(f"option 'assign' is JSON such as {{\"orders\": [0, 1]}}, not {text[:200]!r}")
        partitions.update(TopicPartition(topic, index) for index in listed)
    return tuple(sorted(partitions))
