"""Keys and values that follow a schema of the registry: which schema a request means, and its codec."""

from typing import NamedTuple

from headwater.broker.schemas.registry import SchemaRegistry
from headwater.coordination.schemas.commands import Registration
from headwater.coordination.schemas.refusals import INVALID_SCHEMA as INVALID_IN_REGISTRY
from headwater.coordination.schemas.refusals import SCHEMA_NOT_FOUND, SUBJECT_NOT_FOUND, RegistryRefusal
from headwater.coordination.schemas.terms import Content, StoredSchema
from headwater.errors import Refusal
from headwater.listeners.http.proxy.answers import (
    INVALID_SCHEMA,
    NO_REGISTRY,
    SCHEMA_UNAVAILABLE,
    ProxyRefusal,
)
from headwater.listeners.http.registry import lookup
from headwater.listeners.http.request import Request
from headwater.registry.errors import InvalidSchema
from headwater.registry.parsed import SchemaType
from headwater.registry.payloads import framing
from headwater.registry.payloads.codec import Codec
from headwater.registry.payloads.protobuf import ProtobufCodec

_SHOWN_LENGTH_MAX = 200
ID_MAX = 2**31 - 1


class Payloads(NamedTuple):
    """How payloads of one schema are written and read."""

    schema_id: int
    type: SchemaType
    codec: Codec

    def encode(self, value: object) -> bytes:
        """Raises InvalidPayload."""
        indexes = framing.FIRST_MESSAGE if self.type is SchemaType.PROTOBUF else None
        return framing.prefix(self.schema_id, indexes) + self.codec.encode(value)

    def decode(self, payload: memoryview) -> object:
        """Raises InvalidPayload. The id in front is already read."""
        if isinstance(self.codec, ProtobufCodec):
            indexes, payload = framing.read_indexes(payload)
            return self.codec.message(indexes).decode(payload)
        return self.codec.decode(payload)


def registry_of(request: Request) -> SchemaRegistry:
    try:
        return request.broker.schemas
    except Refusal as error:
        raise ProxyRefusal(NO_REGISTRY, f"this format needs the schema registry: {error}") from None


async def by_text(request: Request, subject: str, schema_type: SchemaType, text: str) -> Payloads:
    """The schema is registered, if it is not yet: the client needs WRITE on the topic, as to write records."""
    registry = registry_of(request)
    registration = Registration(subject, Content(schema_type, text))
    try:
        stored = await _registered(request, registry, registration)
    except RegistryRefusal as error:
        if error.number == INVALID_IN_REGISTRY:
            raise ProxyRefusal(INVALID_SCHEMA, f"Invalid schema: {error.message}") from None
        message = f"Error when registering schema. format = {schema_type}, subject = {subject}: {error.message}"
        raise ProxyRefusal(SCHEMA_UNAVAILABLE, message) from None
    return await payloads_of(request, stored)


async def _registered(request: Request, registry: SchemaRegistry, registration: Registration) -> StoredSchema:
    try:
        return await registry.look_up(registration)
    except RegistryRefusal as error:
        if error.number not in (SUBJECT_NOT_FOUND, SCHEMA_NOT_FOUND):
            raise
    return await lookup.register(request, registration)


async def by_id(request: Request, schema_id: int, schema_type: SchemaType) -> Payloads:
    """Needs DESCRIBE on a topic whose subject has the schema."""
    registry_of(request)
    try:
        stored = await lookup.with_id(request, schema_id, None)
    except RegistryRefusal as error:
        message = f"Invalid schema. format = {schema_type}, schema_id = {schema_id}: {error.message}"
        raise ProxyRefusal(INVALID_SCHEMA, message) from None
    if stored.content.type is not schema_type:
        message = f"Invalid schema. format = {schema_type}, schema_id = {schema_id} is of type {stored.content.type}"
        raise ProxyRefusal(INVALID_SCHEMA, message)
    return await payloads_of(request, stored)


async def payloads_of(request: Request, stored: StoredSchema) -> Payloads:
    try:
        codec = await request.services.proxy.codecs.of(request.broker.schemas, stored)
    except (RegistryRefusal, InvalidSchema) as error:
        raise ProxyRefusal(INVALID_SCHEMA, f"Invalid schema: {str(error)[:_SHOWN_LENGTH_MAX]}") from None
    return Payloads(stored.id, stored.content.type, codec)
