"""The topics as groups see them: the agreed metadata, and the racks of replicas from the leadership port."""

from headwater.broker.ports.leadership import Leadership
from headwater.coordination.catalog.machine import CatalogMachine
from headwater.ids import TopicId


class TopicView:
    __slots__ = ("_catalog", "_leadership", "by_id", "by_name")

    def __init__(self, catalog: CatalogMachine, leadership: Leadership) -> None:
        self._catalog = catalog
        self._leadership = leadership
        self.by_name = catalog.by_name
        self.by_id = catalog.by_id

    @property
    def version(self) -> int:
        return self._catalog.version

    def racks(self, topic_id: TopicId, partition: int) -> frozenset[str]:
        return self._leadership.racks_of(topic_id, partition)
