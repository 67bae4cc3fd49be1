"""What the formats of all kinds of groups have in common: an event is one record, a key and a value or none."""

from collections.abc import Callable
from typing import Any, TypeAlias

from headwater.coordination.groups.events import Event

StoredRecord: TypeAlias = tuple[bytes, bytes | None]
# By the class of the event.
Write: TypeAlias = Callable[[Any], StoredRecord]
# By the record type, which is the version of the key.
Read: TypeAlias = Callable[[bytes, bytes | None], Event]
