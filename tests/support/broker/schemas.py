"""A schema registry in the test's own event loop, and short ways to speak to it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.broker.broker import Broker
from headwater.broker.schemas.registry import SchemaRegistry
from headwater.coordination.schemas.commands import Registration
from headwater.coordination.schemas.terms import Content, Json, StoredSchema
from headwater.registry.parsed import Reference, SchemaType
from tests.support.broker import embedded_broker

ENABLED = {"headwater.schemas.enable": "true"}


@asynccontextmanager
async def running(path: Path, settings: Mapping[str, str] | None = None) -> AsyncGenerator[SchemaRegistry]:
    async with running_broker(path, settings) as broker:
        yield broker.schemas


@asynccontextmanager
async def running_broker(path: Path, settings: Mapping[str, str] | None = None) -> AsyncGenerator[Broker]:
    async with embedded_broker.running(path, {**ENABLED, **(settings or {})}) as broker:
        await broker.start()
        yield broker


def record(*fields: str, name: str = "R") -> str:
    """An Avro record; a field is a name with a type behind a colon, and `=` before a default."""
    written: list[str] = []
    for field in fields:
        stated, _, default = field.partition("=")
        field_name, _, kind = stated.partition(":")
        suffix = f',"default":{default}' if default else ""
        written.append(f'{{"name":"{field_name}","type":"{kind or "string"}"{suffix}}}')
    return f'{{"type":"record","name":"{name}","fields":[{",".join(written)}]}}'


def content(
    text: str,
    kind: SchemaType = SchemaType.AVRO,
    references: Sequence[tuple[str, str, int]] = (),
    metadata: Json | None = None,
    rule_set: Json | None = None,
) -> Content:
    return Content(kind, text, tuple(Reference(*each) for each in references), metadata, rule_set)


async def register(
    registry: SchemaRegistry,
    subject: str,
    text: str,
    kind: SchemaType = SchemaType.AVRO,
    references: Sequence[tuple[str, str, int]] = (),
    *,
    version: int = 0,
    schema_id: int = -1,
    normalize: bool = False,
    metadata: Json | None = None,
) -> StoredSchema:
    wanted = Registration(subject, content(text, kind, references, metadata), version, schema_id)
    return await registry.register(wanted, normalize=normalize)
