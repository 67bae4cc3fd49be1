"""Producer ids, reserved in blocks: a crash skips the rest of a block, and no id is given twice."""

from headwater.broker.ports.metadata import Metadata
from headwater.coordination.catalog.machine import PRODUCER_ID_BLOCK
from headwater.ids import ProducerId


class ProducerIds:
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._reserved = range(0)

    async def next(self) -> ProducerId:
        metadata = self._metadata
        if not self._reserved:
            async with metadata.change_lock:
                if not self._reserved:
                    first = metadata.state.next_producer_id
                    await metadata.commit(metadata.state.decide_reserve_producer_ids())
                    self._reserved = range(first, first + PRODUCER_ID_BLOCK)
        producer_id, self._reserved = self._reserved[0], self._reserved[1:]
        return ProducerId(producer_id)
