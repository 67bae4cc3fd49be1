"""The agreed metadata of the cluster: topics, ids, settings, producer id blocks. One node keeps it in a local log.

`state` is what is agreed so far. A change is decided on it and committed while the caller holds `change_lock`: each
change is decided on the outcome of the one before it."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headwater.coordination.catalog.events import Event
from headwater.coordination.catalog.machine import CatalogMachine


class MetadataLog(NamedTuple):
    """How far the log of the metadata is: the epoch of its leader, and the end of what is agreed."""

    leader_epoch: int
    end_offset: int


class Metadata(Protocol):
    @property
    def state(self) -> CatalogMachine: ...

    @property
    def change_lock(self) -> asyncio.Lock:
        """Held from the decision of a change until it is committed."""
        ...

    @property
    def is_in_doubt(self) -> bool:
        """Whether a commit failed in a way that leaves its outcome open until the next start."""
        ...

    @property
    def log(self) -> MetadataLog: ...

    def check_online(self) -> None:
        """Refuse, with the reason, while no change can be committed."""
        ...

    async def commit(self, events: Sequence[Event]) -> None:
        """Make the events durable, then apply them. A refusal means that they were not applied."""
        ...
