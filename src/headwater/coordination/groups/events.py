"""All durable events of groups: each is one record of `__consumer_offsets` with the whole state of its key.

What a restart may forget (who is waiting, when a session ends) travels in events of `decisions.volatile`, declared
beside the kind of group that they belong to.
"""

from typing import TypeAlias

from headwater.coordination.groups.classic.events import ClassicEvent
from headwater.coordination.groups.consumer.events import ConsumerEvent
from headwater.coordination.groups.offsets.events import OffsetEvent
from headwater.coordination.groups.share.events import ShareGroupEvent

Event: TypeAlias = OffsetEvent | ClassicEvent | ConsumerEvent | ShareGroupEvent
