"""Catalog events as records: a readable key that compaction goes by, and the event as JSON."""

from typing import Any, Final, cast
from uuid import UUID

import orjson

from headwater.broker.catalog import access_format
from headwater.coordination.access.events import (
    AclAdded,
    AclRemoved,
    DelegationToken,
    DelegationTokenRemoved,
    SaltSecret,
    ScramCredential,
    ScramCredentialRemoved,
)
from headwater.coordination.catalog.events import (
    BrokerOverrides,
    Event,
    GroupOverrides,
    ProducerIdsReserved,
    Topic,
    TopicDeleted,
)
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, TopicId, TopicName

_TOPIC: Final = b"topic/"
_GROUP: Final = b"group/"
_BROKER: Final = b"broker"
_PRODUCER_IDS: Final = b"producer-ids"


class DamagedCatalog(HeadwaterError):
    """The broker does not start on a catalog that it cannot read: topics that it leaves out would look deleted."""


class CatalogFormat:
    def encode(self, event: Event) -> tuple[bytes, bytes | None]:
        match event:
            case Topic():
                stored = {"id": event.id, "partitions": event.partition_count, "config": dict(event.overrides)}
                return _TOPIC + event.name.encode(), orjson.dumps(stored)
            case TopicDeleted(name):
                return _TOPIC + name.encode(), None
            case BrokerOverrides(values):
                return _BROKER, orjson.dumps(dict(values))
            case GroupOverrides(group_id, values):
                return _GROUP + group_id.encode(), orjson.dumps(dict(values)) if values else None
            case ProducerIdsReserved(next_id):
                return _PRODUCER_IDS, orjson.dumps(next_id)
            case (
                AclAdded()
                | AclRemoved()
                | ScramCredential()
                | ScramCredentialRemoved()
                | SaltSecret()
                | DelegationToken()
                | DelegationTokenRemoved()
            ):
                return access_format.encode(event)

    def decode(self, key: bytes, value: bytes | None) -> Event | None:
        try:
            return _decode(key, value)
        except ValueError as error:
            # The checksum was right, so the record was written like this: an operator must find out by which program.
            raise DamagedCatalog(f"the catalog's record {key[:80]!r} is not understood: {error}") from error


def _decode(key: bytes, value: bytes | None) -> Event | None:
    """Raises ValueError for a record that `encode` would not write, and for bytes that are not JSON or UTF-8."""
    if key.startswith(_TOPIC):
        name = TopicName(key[len(_TOPIC) :].decode())
        return TopicDeleted(name) if value is None else _topic(name, orjson.loads(value))
    if key.startswith(_GROUP):
        group_id = GroupId(key[len(_GROUP) :].decode())
        return GroupOverrides(group_id, {} if value is None else _settings(orjson.loads(value)))
    if key.startswith(access_format.PREFIX):
        return access_format.decode(key, value)
    if value is None:
        return None
    if key == _BROKER:
        return BrokerOverrides(_settings(orjson.loads(value)))
    if key == _PRODUCER_IDS:
        return ProducerIdsReserved(_number(orjson.loads(value)))
    # Written by a newer version, which will read it again.
    return None


def _topic(name: TopicName, stored: Any) -> Topic:
    # Fields that a newer version has added are ignored.
    match stored:
        case {"id": str(topic_id), "partitions": partitions, "config": config}:
            return Topic(name, TopicId(UUID(topic_id)), _number(partitions), _settings(config))
        case _:
            raise ValueError("a topic has an id, partitions and a config")


def _number(stored: object) -> int:
    # Not isinstance: a bool is an int, too.
    if type(stored) is not int:
        raise ValueError("a number is expected")
    return stored


def _settings(stored: object) -> dict[str, str]:
    if not isinstance(stored, dict):
        raise ValueError("settings are names with values")
    settings = cast("dict[str, object]", stored)
    if not all(isinstance(text, str) for text in settings.values()):
        raise ValueError("the value of a setting is text")
    return cast("dict[str, str]", settings)
