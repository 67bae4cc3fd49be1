"""Catalog events as records: a readable key that compaction goes by, and the event as JSON."""

from typing import Final
from uuid import UUID

import msgspec

from headwater.coordination.topics import BrokerOverrides, Event, ProducerIdsReserved, Topic, TopicDeleted
from headwater.errors import HeadwaterError
from headwater.ids import TopicId, TopicName

_TOPIC: Final = b"topic/"
_BROKER: Final = b"broker"
_PRODUCER_IDS: Final = b"producer-ids"


class DamagedCatalog(HeadwaterError):
    """The broker does not start on a catalog that it cannot read: topics that it leaves out would look deleted."""


class _StoredTopic(msgspec.Struct):
    id: UUID
    partitions: int
    config: dict[str, str]


_topic_decoder = msgspec.json.Decoder(_StoredTopic)
_overrides_decoder = msgspec.json.Decoder(dict[str, str])
_number_decoder = msgspec.json.Decoder(int)


class CatalogFormat:
    def encode(self, event: Event) -> tuple[bytes, bytes | None]:
        match event:
            case Topic():
                stored = _StoredTopic(event.id, event.partition_count, dict(event.overrides))
                return _TOPIC + event.name.encode(), msgspec.json.encode(stored)
            case TopicDeleted(name):
                return _TOPIC + name.encode(), None
            case BrokerOverrides(values):
                return _BROKER, msgspec.json.encode(values)
            case ProducerIdsReserved(next_id):
                return _PRODUCER_IDS, msgspec.json.encode(next_id)

    def decode(self, key: bytes, value: bytes | None) -> Event | None:
        try:
            return _decode(key, value)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # The checksum was right, so it was written like this: by what, is for a person to find out.
            raise DamagedCatalog(f"the catalog's record {key[:80]!r} is not understood: {error}") from error


def _decode(key: bytes, value: bytes | None) -> Event | None:
    if key.startswith(_TOPIC):
        name = TopicName(key[len(_TOPIC) :].decode())
        if value is None:
            return TopicDeleted(name)
        stored = _topic_decoder.decode(value)
        return Topic(name, TopicId(stored.id), stored.partitions, stored.config)
    if value is None:
        return None
    if key == _BROKER:
        return BrokerOverrides(_overrides_decoder.decode(value))
    if key == _PRODUCER_IDS:
        return ProducerIdsReserved(_number_decoder.decode(value))
    # Written by a newer version, which will read it again.
    return None
