"""The headers of a dead letter: where a record comes from, and why a share group gave it up.

A dead letter has the key, the value and the headers of its record, then this set of headers, in this order. All values
are text in UTF-8, numbers in decimal digits.

    __dlq.errors.topic           the topic of the record (KIP-1191, as all of this prefix)
    __dlq.errors.partition       number: its partition
    __dlq.errors.offset          number: its offset
    __dlq.errors.group           the share group
    __dlq.errors.delivery.count  number: how often the group delivered it; 0 if it expired before the first time
    __dlq.errors.message         the reason as a sentence, Kafka's where Kafka has one
    headwater-dlq-reason         rejected (by a member), exhausted (no attempt was left) or expired (time to live)
    headwater-dlq-time           number: when the group gave it up, in milliseconds since 1970
    headwater-dlq-timestamp      number: the timestamp of the record, likewise; missing if the record was not read
    headwater-dlq-content        copied or omitted: whether key, value and headers are those of the record

The timestamp of a dead letter is the time of its copy, so that retention counts from then. A record that is a dead
letter already and fails again keeps its headers and gets another set behind them: the last set is the one that counts,
and without it the record is what it was before.

A record that was put back into its topic has one header in place of the set, `headwater-redriven`: the dead letter that
it was, as `topic/partition@offset`. It keeps those of earlier times, so that their number tells how often it was put
back.
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from headwater.protocol.batches.records import Headers

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"
REASON: Final = "headwater-dlq-reason"
TIME: Final = "headwater-dlq-time"
TIMESTAMP: Final = "headwater-dlq-timestamp"
CONTENT: Final = "headwater-dlq-content"

REDRIVEN: Final = "headwater-redriven"

NAMES: Final = (TOPIC, PARTITION, OFFSET, GROUP, DELIVERY_COUNT, MESSAGE, REASON, TIME, TIMESTAMP, CONTENT)

_KAFKAS_PREFIX: Final = "__dlq.errors."
_COPIED, _OMITTED = "copied", "omitted"
_NUMBER = re.compile("[0-9]{1,19}")
_INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1


class Reason(IntEnum):
    """Why a record was given up; the numbers are stored with share groups."""

    REJECTED = 0
    EXHAUSTED = 1
    EXPIRED = 2

    @property
    def label(self) -> str:
        return self.name.lower()


_MESSAGES: Final = {
    Reason.REJECTED: "Offset rejected by client.",
    Reason.EXHAUSTED: "Offset delivery count exceeded the threshold.",
    Reason.EXPIRED: "Record expired before it was delivered and acknowledged.",
}
_REASONS: Final = {each.label: each for each in Reason}
# Kafka writes no reason of its own, but one of these sentences.
_REASONS_BY_MESSAGE: Final = {message: reason for reason, message in _MESSAGES.items()}


class DeadLetterOrigin(NamedTuple):
    topic: str
    partition: int
    offset: int
    group: str
    delivery_count: int
    reason: Reason
    # When the group gave the record up; -1 if it does not say.
    time_ms: int
    # The timestamp of the record; None if the record was not read.
    timestamp_ms: int | None
    is_copied: bool


def written(origin: DeadLetterOrigin) -> Headers:
    texts = [
        (TOPIC, origin.topic),
        (PARTITION, str(origin.partition)),
        (OFFSET, str(origin.offset)),
        (GROUP, origin.group),
        (DELIVERY_COUNT, str(origin.delivery_count)),
        (MESSAGE, _MESSAGES[origin.reason]),
        (REASON, origin.reason.label),
        (TIME, str(origin.time_ms)),
    ]
    if origin.timestamp_ms is not None:
        texts.append((TIMESTAMP, str(origin.timestamp_ms)))
    texts.append((CONTENT, _COPIED if origin.is_copied else _OMITTED))
    return tuple((name, text.encode()) for name, text in texts)


def read(headers: Headers) -> DeadLetterOrigin | None:
    """What the last set says; None if the record is no dead letter, or says something impossible."""
    begin = _begin(headers)
    if begin is None:
        return None
    found = dict(headers[begin:])
    try:
        texts = {name: value.decode() for name in NAMES if (value := found.get(name)) is not None}
        timestamp = texts.get(TIMESTAMP)
        return DeadLetterOrigin(
            texts[TOPIC],
            _number(texts[PARTITION], _INT32_MAX),
            _number(texts[OFFSET]),
            texts[GROUP],
            _number(texts.get(DELIVERY_COUNT, "0"), _INT32_MAX),
            _reason(texts),
            _number(texts[TIME]) if TIME in texts else -1,
            None if timestamp is None else _number(timestamp),
            texts.get(CONTENT, _COPIED) == _COPIED,
        )
    except (KeyError, ValueError):
        return None


def message(headers: Headers) -> str:
    """The sentence of the last set; empty if there is none."""
    begin = _begin(headers)
    found = None if begin is None else dict(headers[begin:]).get(MESSAGE)
    return "" if found is None else found.decode(errors="replace")


def stripped(headers: Headers) -> Headers:
    """The headers of the record that became this dead letter, and those that it got later."""
    begin = _begin(headers)
    if begin is None:
        return headers
    return headers[:begin] + tuple(each for each in headers[begin:] if not _belongs(each[0]))


def redriven_count(headers: Headers) -> int:
    """How often the record was put back into its topic."""
    return sum(name == REDRIVEN for name, _ in headers)


def redriven_mark(topic: str, partition: int, offset: int) -> tuple[str, bytes]:
    return REDRIVEN, f"{topic}/{partition}@{offset}".encode()


def _begin(headers: Headers) -> int | None:
    """Where the last set begins."""
    return next((number for number in range(len(headers) - 1, -1, -1) if headers[number][0] == TOPIC), None)


def _belongs(name: str) -> bool:
    return name in NAMES or name.startswith(_KAFKAS_PREFIX)


def _number(text: str, maximum: int = _INT64_MAX) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) > maximum:
        raise ValueError(text)
    return int(text)


def _reason(texts: Mapping[str, str]) -> Reason:
    label = texts.get(REASON)
    if label is not None:
        return _REASONS[label]
    return _REASONS_BY_MESSAGE.get(texts.get(MESSAGE, ""), Reason.EXHAUSTED)
