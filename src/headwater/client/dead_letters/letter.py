"""One dead letter, and a choice of many."""

from dataclasses import dataclass
from typing import NamedTuple

from headwater.client.consumer import ConsumedRecord
from headwater.client.schedule import Place
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.batches.dead_letter_headers import DeadLetterOrigin, Reason
from headwater.protocol.batches.records import Headers


class DeadLetter(NamedTuple):
    """`key`, `value` and `headers` are those of the record that it was; without them if `origin.is_copied` is false.

    `place` and `timestamp_ms` are where and when the copy was written. `is_redriven` is None if that is not known: the
    user may not read the journal.
    """

    topic: str
    place: Place
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    origin: DeadLetterOrigin
    message: str
    is_redriven: bool | None

    @property
    def given_up_ms(self) -> int:
        """When the group gave the record up. Kafka's brokers do not say it, but copy at once."""
        return self.timestamp_ms if self.origin.time_ms < 0 else self.origin.time_ms

    @property
    def redriven_count(self) -> int:
        """How often the record had been put back before it became this letter."""
        return dead_letter_headers.redriven_count(self.headers)

    @property
    def size(self) -> int:
        return (
            len(self.key or b"")
            + len(self.value or b"")
            + sum(len(name) + len(content or b"") for name, content in self.headers)
        )


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Letters for which all that is given holds."""

    reason: Reason | None = None
    origin_topic: str | None = None
    origin_partition: int | None = None
    group: str | None = None
    since_ms: int | None = None
    is_redriven: bool | None = None

    def matches(self, letter: DeadLetter) -> bool:
        origin = letter.origin
        return (
            (self.reason is None or origin.reason is self.reason)
            and (self.origin_topic is None or origin.topic == self.origin_topic)
            and (self.origin_partition is None or origin.partition == self.origin_partition)
            and (self.group is None or origin.group == self.group)
            and (self.since_ms is None or letter.given_up_ms >= self.since_ms)
            and (self.is_redriven is None or bool(letter.is_redriven) is self.is_redriven)
        )


ALL = LetterFilter()


def letter_of(record: ConsumedRecord, *, is_redriven: bool | None) -> DeadLetter | None:
    """None if the record is no dead letter."""
    origin = dead_letter_headers.read(record.headers)
    if origin is None:
        return None
    return DeadLetter(
        record.topic,
        Place(record.partition, record.offset),
        record.timestamp_ms,
        record.key,
        record.value,
        dead_letter_headers.stripped(record.headers),
        origin,
        dead_letter_headers.message(record.headers),
        is_redriven,
    )


def mark_of(letter: DeadLetter) -> tuple[str, bytes]:
    """The header that a letter is given when it is put back."""
    return dead_letter_headers.redriven_mark(letter.topic, *letter.place)
