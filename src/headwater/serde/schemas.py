"""Schemas of a registry, kept once they were read: an id never comes to mean another schema. Bounded."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from headwater.client.errors import ClientError
from headwater.client.registry.schema_registry import RegisteredSchema, Schema, SchemaRegistry
from headwater.clock import Clock, SystemClock
from headwater.registry import formats
from headwater.registry.errors import InvalidSchema
from headwater.registry.parsed import Document, ParsedSchema, SchemaType
from headwater.serde.serde import SerdeError

T = TypeVar("T")

SCHEMAS_MAX = 1_000
# How long a latest version is taken for the latest.
LATEST_MS = 60_000

# What a schema is registered under or found by.
Key = tuple[object, ...]


class KnownSchema(NamedTuple):
    registered: RegisteredSchema
    parsed: ParsedSchema

    @property
    def id(self) -> int:
        return self.registered.id

    @property
    def type(self) -> SchemaType:
        return self.registered.schema.type


class Schemas:
    """Not thread-safe, as the connection to the registry is not."""

    def __init__(
        self,
        registry: SchemaRegistry | Mapping[str, str] | str,
        *,
        clock: Clock | None = None,
        schemas_max: int = SCHEMAS_MAX,
    ) -> None:
        """`registry` may be the settings of a client, or an address."""
        self.registry = registry if isinstance(registry, SchemaRegistry) else SchemaRegistry(registry)
        self._clock = clock or SystemClock()
        self._known: OrderedDict[Key, Any] = OrderedDict()
        self._max = schemas_max

    def by_id(self, schema_id: int) -> KnownSchema:
        return self._kept(("id", schema_id), lambda: self._parsed(self.registry.schema(schema_id)))

    def by_guid(self, guid: str) -> KnownSchema:
        return self._kept(("guid", guid), lambda: self._parsed(self.registry.by_guid(guid)))

    def version(self, subject: str, version: int) -> KnownSchema:
        return self._kept(("version", subject, version), lambda: self._parsed(self.registry.version(subject, version)))

    def latest(self, subject: str) -> KnownSchema:
        key: Key = ("latest", subject)
        now_ms = self._clock.monotonic_ms()
        known = self._known.get(key)
        if known is None or now_ms - known[0] > LATEST_MS:
            # The same schema stays the same object: what was compiled for it goes on to be used.
            found = _asked(lambda: self.registry.version(subject))
            known = now_ms, self._kept(("id", found.id), lambda: self._parsed(found))
            self._keep(key, known)
        return known[1]

    def registered(self, subject: str, schema: Schema, *, registers: bool, normalize: bool = False) -> KnownSchema:
        """The version of the subject that is this schema. `registers` makes it one if it is none."""

        def find() -> KnownSchema:
            if registers:
                found = self.registry.register(subject, schema, normalize=normalize)
            else:
                found = self.registry.look_up(subject, schema, normalize=normalize)
            return KnownSchema(found, self.parse(schema))

        return self._kept(("registered", subject, schema), find)

    def parse(self, schema: Schema) -> ParsedSchema:
        try:
            return formats.parse(Document(schema.type, schema.text, self.registry.resolve(schema)))
        except InvalidSchema as error:
            raise SerdeError(f"the schema cannot be used: {error}") from None

    def compiled(self, key: Key, make: Callable[[], T]) -> T:
        """What was made of schemas: kept as they are."""
        return self._kept(key, make)

    def _parsed(self, found: RegisteredSchema) -> KnownSchema:
        return KnownSchema(found, self.parse(found.schema))

    def _kept(self, key: Key, find: Callable[[], T]) -> T:
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        found = _asked(find)
        self._keep(key, found)
        return found

    def _keep(self, key: Key, found: object) -> None:
        self._known[key] = found
        self._known.move_to_end(key)
        while len(self._known) > self._max:
            self._known.popitem(last=False)


def _asked(find: Callable[[], T]) -> T:
    """What a retry may help stays an error of the client; anything else is the value's or the schema's."""
    try:
        return find()
    except ClientError as error:
        if error.is_retriable:
            raise
        raise SerdeError(str(error)) from error
