"""Which topics a group is subscribed to: by name, and by regular expressions that are resolved here, in the broker.

Regular expressions are RE2's, whose matching time grows with the length of a name and the size of the expression, and
no faster; both are bounded, because all topics are matched while everybody else waits.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from headwater.coordination.groups.commands import TopicImage
from headwater.coordination.groups.events import RegexResolved
from headwater.coordination.topics import is_internal
from headwater.errors import ErrorCode, KafkaError
from headwater.ids import TopicId, TopicName

if TYPE_CHECKING:
    from collections.abc import Callable

REGEX_LENGTH_MAX = 1024
# Of one compiled expression, so that nested repetitions take neither all memory nor all time. Text makes an instruction
# for each character; what makes many more repeats something.
REGEX_MEMORY_BYTES_MAX = 1 << 20
REGEX_INSTRUCTIONS_MIN = 300
REGEX_INSTRUCTIONS_PER_CHARACTER = 2
# Of one group: as a rule all of its members have the same.
REGEXES_MAX = 20
MATCHERS_KEPT = 128
MATCHES_KEPT = 1 << 16
# The hash of no topics at all, as in Kafka.
NO_METADATA_HASH = 0


class Subscription(NamedTuple):
    topic_names: frozenset[TopicName]
    topic_regex: str | None


NO_SUBSCRIPTION = Subscription(frozenset(), None)

# How many members have each subscription. Most groups have one, so what follows from a subscription is worked out once.
Subscribers: TypeAlias = Mapping[Subscription, int]
Regexes: TypeAlias = Mapping[str, RegexResolved]


def resubscribe(
    subscribers: Subscribers, removed: Iterable[Subscription], added: Iterable[Subscription]
) -> dict[Subscription, int]:
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


def topic_names_of(subscription: Subscription, regexes: Regexes) -> frozenset[TopicName]:
    if subscription.topic_regex is None:
        return subscription.topic_names
    # After a crash an expression may have lost its topics: it stands for none until it is resolved again.
    resolved = regexes.get(subscription.topic_regex)
    return subscription.topic_names | resolved.topics if resolved is not None else subscription.topic_names


def topic_ids_of(subscription: Subscription, regexes: Regexes, topics: TopicImage) -> frozenset[TopicId]:
    by_name = topics.by_name
    return frozenset(by_name[name].id for name in topic_names_of(subscription, regexes) if name in by_name)


def subscribed_names(subscribers: Subscribers, regexes: Regexes) -> frozenset[TopicName]:
    return frozenset[TopicName]().union(*(topic_names_of(subscription, regexes) for subscription in subscribers))


def resolve(regex: str, topics: TopicImage) -> frozenset[TopicName]:
    """The topics whose whole name matches."""
    _matcher(regex)
    return frozenset(name for name in topics.by_name if not is_internal(name) and _matches(regex, name))


def metadata_hash(names: Iterable[TopicName], topics: TopicImage) -> int:
    """Differs when a topic was created, deleted, grew or moved. The same after a restart, for it is stored."""
    digest = blake2b(digest_size=8)
    by_name = topics.by_name
    existing = sorted(name for name in names if name in by_name)
    for name in existing:
        topic = by_name[name]
        racks = [",".join(sorted(topics.racks(topic.id, partition))) for partition in range(topic.partition_count)]
        digest.update(f"{name}/{topic.id}/{topic.partition_count}/{';'.join(racks)}\n".encode())
    return int.from_bytes(digest.digest(), signed=True) if existing else NO_METADATA_HASH


# Whenever a topic comes or goes every expression of every group is resolved again, mostly against the same names.
@lru_cache(maxsize=MATCHES_KEPT)
def _matches(regex: str, name: str) -> bool:
    return _matcher(regex)(name) is not None


@lru_cache(maxsize=MATCHERS_KEPT)
def _matcher(regex: str) -> "Callable[[str], object]":
    if len(regex) > REGEX_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the regular expression has {len(regex)} characters, the limit is {REGEX_LENGTH_MAX}",
        )
    # Few brokers ever need it, and none to start.
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = REGEX_MEMORY_BYTES_MAX
    try:
        compiled = re2.compile(regex, options)
    except (cast("type[Exception]", re2.error), UnicodeError) as error:
        text = b"".join(part for part in error.args if isinstance(part, bytes)).decode("utf-8", "replace")
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"'{regex}' is not a valid regular expression: {text}"
        ) from error
    instructions_max = REGEX_INSTRUCTIONS_MIN + REGEX_INSTRUCTIONS_PER_CHARACTER * len(regex)
    if compiled.programsize > instructions_max:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"'{regex}' is too large an expression ({compiled.programsize} instructions, the limit is "
            f"{instructions_max}): repeat less, or subscribe to names",
        )
    return cast("Callable[[str], object]", compiled.fullmatch)
