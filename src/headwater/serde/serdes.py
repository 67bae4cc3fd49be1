"""Serdes by name."""

from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from headwater.client.registry.schema_registry import SchemaRegistry
from headwater.registry.parsed import SchemaType
from headwater.serde.serde import Binary, Json, Serde, SerdeError, Text

# Takes the options that `Serdes.get` is given.
Factory = Callable[..., Serde[Any]]

_FRAMED: Final = {
    "avro": SchemaType.AVRO,
    "protobuf": SchemaType.PROTOBUF,
    "json-schema": SchemaType.JSON,
    # Whatever the schema's number says.
    "registry": None,
}


class Serdes:
    """`binary`, `string` and `json`; with a registry also `avro`, `protobuf`, `json-schema` and `registry`; and those
    that `register` adds."""

    def __init__(self, registry: SchemaRegistry | Mapping[str, str] | str | None = None) -> None:
        """`registry` may be the settings of a client (`schema.registry.url` and its neighbours), or an address."""
        self._registry = registry
        self._schemas: Any = None
        self._factories: dict[str, Factory] = {"binary": Binary, "string": Text, "json": Json}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the registry."""
        if self._schemas is not None:
            self._schemas.registry.close()

    @property
    def names(self) -> list[str]:
        return sorted({*self._factories, *(_FRAMED if self._registry is not None else ())})

    def register(self, name: str, factory: Factory) -> None:
        """Add a serde of your own: `factory` makes one from the options that are given to `get`."""
        if name in self._factories or name in _FRAMED:
            raise SerdeError(f"there is a serde {name!r} already")
        self._factories[name] = factory

    def get(self, name: str, **options: Any) -> Serde[Any]:
        """The serde of this name. `options` are those of `Framed` where it needs a registry: `schema`, `schema_id`,
        `subject`, `strategy`, `message`, `reader`, `registers`, `normalize`."""
        factory = self._factories.get(name)
        if factory is None and name in _FRAMED:
            factory = self._framed(name)
        if factory is None:
            raise SerdeError(f"there is no serde {name!r}, only {', '.join(self.names)}")
        try:
            return factory(**options)
        except TypeError as error:
            raise SerdeError(f"serde {name!r}: {error}") from None

    def _framed(self, name: str) -> Factory:
        if self._registry is None:
            raise SerdeError(f"serde {name!r} needs a schema registry (schema.registry.url)")
        # Late imports: most programs use no schemas.
        from headwater.serde.framed import Framed  # noqa: PLC0415
        from headwater.serde.schemas import Schemas  # noqa: PLC0415

        if self._schemas is None:
            self._schemas = Schemas(self._registry)
        schemas = self._schemas
        return partial(Framed, schemas, kind=_FRAMED[name])
