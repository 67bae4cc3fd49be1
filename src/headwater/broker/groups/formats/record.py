"""What the formats of all kinds of groups share: an event is one record; without a value it is a tombstone."""

from collections.abc import Callable
from typing import Any, TypeAlias

from headwater.coordination.groups.events import Event

StoredRecord: TypeAlias = tuple[bytes, bytes | None]
# Writers are found by the class of the event.
Write: TypeAlias = Callable[[Any], StoredRecord]
# Readers are found by the record type, which is the version of the key.
Read: TypeAlias = Callable[[bytes, bytes | None], Event]
