"""The client of a schema registry, where the commands do not show it."""

from headwater.client.registry.schema_registry import Schema, SchemaRegistry
from headwater.testing import Broker


def test_long_lists_come_in_pages() -> None:
    with Broker({"headwater.schemas.enable": "true"}, http=True) as broker, SchemaRegistry(broker.http_url) as registry:
        names = [f"subject-{number:04}" for number in range(1_050)]
        for name in names:
            registry.register(name, Schema('"string"'))
        assert [each.subject for each in registry.schemas()] == names
        assert len(registry.schemas(latest_only=True)) == 1_050
        assert [each.subject for each in registry.schemas("subject-104")] == names[1040:]
