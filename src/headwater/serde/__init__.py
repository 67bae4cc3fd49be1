"""Values instead of bytes: serdes by name, with the schemas of a registry.

    from headwater.client import Cluster, Producer
    from headwater.serde import Schema, Serdes, TypedProducer

    serdes = Serdes("http://127.0.0.1:8081")
    order = Schema('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
    with Cluster("127.0.0.1:9092") as cluster, Producer(cluster) as producer:
        orders = TypedProducer(producer, key=serdes.get("string"), value=serdes.get("avro", schema=order))
        orders.send("orders", {"id": 7}, key="ann")

The names in `__all__` are the public interface. Each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.client.registry.schema_registry import RegisteredSchema, Schema, SchemaRegistry
    from headwater.registry.parsed import Reference, SchemaType
    from headwater.serde.framed import Framed
    from headwater.serde.schemas import Schemas
    from headwater.serde.serde import Binary, Context, Json, Serde, SerdeError, Text
    from headwater.serde.serdes import Serdes
    from headwater.serde.typed import TypedProducer, TypedRecord, typed_records

__all__ = [
    "Binary",
    "Context",
    "Framed",
    "Json",
    "Reference",
    "RegisteredSchema",
    "Schema",
    "SchemaRegistry",
    "SchemaType",
    "Schemas",
    "Serde",
    "SerdeError",
    "Serdes",
    "Text",
    "TypedProducer",
    "TypedRecord",
    "typed_records",
]

if not TYPE_CHECKING:
    # Hidden from the type checker, which would otherwise accept any name.
    _NAMES_BY_MODULE = {
        "headwater.client.registry.schema_registry": "RegisteredSchema Schema SchemaRegistry",
        "headwater.registry.parsed": "Reference SchemaType",
        "headwater.serde.framed": "Framed",
        "headwater.serde.schemas": "Schemas",
        "headwater.serde.serde": "Binary Context Json Serde SerdeError Text",
        "headwater.serde.serdes": "Serdes",
        "headwater.serde.typed": "TypedProducer TypedRecord typed_records",
    }
    _MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(module), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
