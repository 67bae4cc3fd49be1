"""Start and end of a read, as given by options: earliest, latest, offsets or times, for all partitions or for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from headwater.client.offsets import EARLIEST, LATEST
from headwater.errors import ConfigError
from headwater.ids import TopicName, TopicPartition
from headwater.spark.options.options import Options

_TIMESTAMP_MS_MAX = 2**61
_OFFSET_MAX = 2**62
_PARTITION_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Bound:
    """`when` (EARLIEST, LATEST or a time) applies to all partitions, unless `offsets` or `times_ms` name all of them.

    `option` is the name of the user's option, for error messages. Each of `offsets` may be EARLIEST or LATEST, too.
    """

    option: str
    when: int = LATEST
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    @property
    def has_latest(self) -> bool:
        """Whether any partition's bound is LATEST, which resolves to a different offset whenever records arrive."""
        if self.offsets:
            return LATEST in self.offsets.values()
        return self.when == LATEST and not self.times_ms


def starting(options: Options, default: int) -> Bound:
    bound = _bound(options, "starting", default)
    if default == EARLIEST and bound.has_latest:
        raise ConfigError("option 'startingOffsets': a batch read cannot begin at 'latest', for it would read nothing")
    return bound


def ending(options: Options) -> Bound:
    bound = _bound(options, "ending", LATEST)
    if bound.when == EARLIEST or EARLIEST in bound.offsets.values():
        raise ConfigError("option 'endingOffsets': a read cannot end at 'earliest', for it would read nothing")
    return bound


def _bound(options: Options, side: str, default: int) -> Bound:
    """Precedence as in Spark's Kafka source: a time for all partitions, then times for each, then offsets."""
    option = f"{side}Timestamp"
    time_ms = options.integer(option, minimum=0)
    if time_ms is not None:
        if time_ms > _TIMESTAMP_MS_MAX:
            raise ConfigError(f"option {option!r} is a time in milliseconds since 1970, not {time_ms}")
        return Bound(option, time_ms)
    option = f"{side}OffsetsByTimestamp"
    text = options.text(option)
    if text is not None:
        return Bound(option, times_ms=parse_numbers(text, option, 0, _TIMESTAMP_MS_MAX))
    option = f"{side}Offsets"
    text = options.text(option)
    if text is None:
        return Bound(option, default)
    word = text.strip().lower()
    if word == "earliest":
        return Bound(option, EARLIEST)
    if word == "latest":
        return Bound(option, LATEST)
    return Bound(option, offsets=parse_numbers(text, option, EARLIEST, _OFFSET_MAX))


def parse_numbers(text: str, option: str, minimum: int, maximum: int) -> dict[TopicPartition, int]:
    """`{"orders": {"0": 23, "1": -2}}`, as Spark's Kafka source has it."""
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in parse_topics(text, option).items():
        if not isinstance(partitions, dict):
            raise _malformed(option, text)
        for index, number in cast("dict[str, Any]", partitions).items():
            if not index.isdecimal() or int(index) > _PARTITION_MAX or not isinstance(number, int):
                raise _malformed(option, text)
            if not minimum <= number <= maximum:
                raise ConfigError(
                    f"option {option!r}: {number} for {topic}-{index} does not lie between {minimum} and {maximum}"
                )
            numbers[TopicPartition(topic, int(index))] = number
    return numbers


def parse_topics(text: str, option: str) -> dict[TopicName, Any]:
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise _malformed(option, text) from None
    if not isinstance(parsed, dict) or not parsed:
        raise _malformed(option, text)
    return cast("dict[TopicName, Any]", parsed)


def _malformed(option: str, text: str) -> ConfigError:
    example = '{"orders": [0, 1]}' if option == "assign" else '{"orders": {"0": 23, "1": 345}}'
    words = "" if option == "assign" or "Timestamp" in option else "'earliest', 'latest' or "
    return ConfigError(f"option {option!r} is {words}JSON such as {example}, not {text[:200]!r}")
