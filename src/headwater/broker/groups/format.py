"""Group events as the records of `__consumer_offsets`, byte for byte as Kafka writes them.

Older versions of the values are read as well, so that a partition which Kafka wrote can be taken over. Each kind of
group has its records in a module of `formats`.
"""

from collections.abc import Mapping
from typing import Final

from headwater.broker.groups.formats import classic, consumer, offsets, share
from headwater.broker.groups.formats.record import Read, StoredRecord, Write
from headwater.coordination.groups.events import Event
from headwater.errors import HeadwaterError, ProtocolError
from headwater.protocol.stored.record import read_record_type

_FORMATS: Final = (offsets, classic, consumer, share)
_WRITERS: Final[Mapping[type, Write]] = {event: write for each in _FORMATS for event, write in each.WRITERS.items()}
_READERS: Final[Mapping[int, Read]] = {number: read for each in _FORMATS for number, read in each.READERS.items()}


class DamagedGroups(HeadwaterError):
    """Groups are not loaded from records that cannot be read: an offset left out would look as if never committed."""


class GroupFormat:
    def encode(self, event: Event) -> StoredRecord:
        """Raises KeyError for TransactionEnded, which is not a record but a control batch."""
        return _WRITERS[type(event)](event)

    def decode(self, key: bytes, value: bytes | None) -> Event | None:
        try:
            read = _READERS.get(read_record_type(key))
            # None for other kinds of groups, for records that Kafka itself no longer reads, and for newer versions.
            return None if read is None else read(key, value)
        except ProtocolError as error:
            # The checksum was right, so the record was written like this: an operator must find out by which program.
            raise DamagedGroups(f"the group record {key[:80]!r} is not understood: {error}") from error
