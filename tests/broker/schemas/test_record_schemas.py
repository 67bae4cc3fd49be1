"""Records that are produced to topics with schemas: which are taken, which are refused, and with what reason."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.writes.journal import Append
from headwater.config.broker import BrokerConfig
from headwater.coordination.schemas.commands import Registration
from headwater.coordination.schemas.refusals import RegistryRefusal
from headwater.coordination.schemas.terms import Content, StoredSchema
from headwater.errors import ErrorCode, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.invalid_record import InvalidRecord
from headwater.protocol.batches.records import Headers, Record
from headwater.registry import formats
from headwater.registry.parsed import Document, Reference, SchemaType
from headwater.registry.payloads.codec import codec_of
from headwater.registry.payloads.framing import prefix
from tests.support.broker.embedded_broker import (
    NOW_MS,
    QUIET,
    TIMEOUT_S,
    produce,
    readable,
    running,
    settled,
    stage,
)
from tests.support.broker.faulty_disk import FULL, FaultyDisk

AVRO, JSON, PROTOBUF = SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF
ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
ORDER_WITH_NOTE = ORDER.replace("]}", ',{"name":"note","type":"string","default":""}]}')
JSON_ORDER = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
PROTO_ORDER = """syntax = "proto3"; package shop;
message Order { int64 id = 1; message Line { string item = 1; } repeated Line lines = 2; }
message Refund { string reason = 1; }"""
SETTINGS = {"headwater.schemas.enable": "true", "headwater.flush": "os"}
VALUE = {"headwater.value.schema.validation": "full"}
FORMATS = [(AVRO, ORDER), (JSON, JSON_ORDER), (PROTOBUF, PROTO_ORDER)]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running(tmp_path, SETTINGS) as broker:
        await broker.start()
        yield broker


async def register(
    broker: Broker, subject: str, text: str = ORDER, kind: SchemaType = AVRO, references: Sequence[Reference] = ()
) -> StoredSchema:
    return await broker.schemas.register(Registration(subject, Content(kind, text, tuple(references))))


async def topic(broker: Broker, name: str = "orders", **settings: str) -> Partition:
    await broker.topics.create(name, settings, partition_count=1)
    return broker.partition(name, 0)


def payload(value: Any, text: str = ORDER, kind: SchemaType = AVRO) -> bytes:
    return codec_of(formats.parse(Document(kind, text))).encode(value)


def framed(schema: StoredSchema, value: Any, indexes: Sequence[int] | None = None) -> bytes:
    kind = schema.content.type
    if kind is PROTOBUF and indexes is None:
        indexes = (0,)
    return prefix(schema.id, indexes) + payload(value, schema.content.text, kind)


async def outcome(broker: Broker, partition: Partition, batch: bytes) -> Append | HeadwaterError:
    try:
        append = await produce(broker, partition, batch)
    except HeadwaterError as refusal:
        return refusal
    return append if append.error is None else append.error


async def accepted(broker: Broker, partition: Partition, *values: bytes | None, headers: Headers = ()) -> None:
    records = [Record(index, NOW_MS, b"k", value, headers) for index, value in enumerate(values)]
    assert isinstance(await outcome(broker, partition, bytes(batches.build(records))), Append)


async def refused(broker: Broker, partition: Partition, value: bytes | None, headers: Headers = ()) -> str:
    """What is wrong with a record that comes behind a null value, which any topic takes."""
    before = partition.end_offset
    records = [Record(0, NOW_MS, b"k", None), Record(1, NOW_MS, b"k", value, headers)]
    refusal = await outcome(broker, partition, bytes(batches.build(records)))
    assert isinstance(refusal, InvalidRecord)
    assert (refusal.code, [index for index, _ in refusal.refused]) == (ErrorCode.INVALID_RECORD, [1])
    assert partition.end_offset == before
    return refusal.refused[0][1]


# -- id


@pytest.mark.parametrize(("kind", "text"), FORMATS)
async def test_id_asks_for_a_schema_of_the_topics_subject(broker: Broker, kind: SchemaType, text: str) -> None:
    schema = await register(broker, "orders-value", text, kind)
    other = await register(broker, "other-value", '"string"')
    partition = await topic(broker, **{"headwater.value.schema.validation": "id"})
    # Not decoded: anything may follow.
    await accepted(broker, partition, prefix(schema.id) + b"anything", prefix(schema.id), None)
    for value, problem in (
        (b"", "without the number of a schema"),
        (b"\0\0\0", "without the number of a schema"),
        (b'{"id": 1}', "without the number of a schema"),
        (prefix(99), "with schema 99, which the registry does not know"),
        (prefix(other.id), f"with schema {other.id}, which is not in subject 'orders-value' "),
    ):
        assert problem in await refused(broker, partition, value)
    assert len(readable(partition)) == 3


async def test_a_version_counts_as_soon_as_it_is_registered_and_until_it_is_deleted(broker: Broker) -> None:
    schema = await register(broker, "orders-value")
    partition = await topic(broker, **{"headwater.value.schema.validation": "id"})
    assert "does not know" in await refused(broker, partition, prefix(schema.id + 1))
    second = await register(broker, "orders-value", ORDER_WITH_NOTE)
    await accepted(broker, partition, prefix(second.id), prefix(schema.id))
    await broker.schemas.delete_version("orders-value", 1, is_permanent=False)
    assert "which was deleted from subject 'orders-value'" in await refused(broker, partition, prefix(schema.id))
    await accepted(broker, partition, prefix(second.id))
    await broker.schemas.delete_version("orders-value", 1, is_permanent=True)
    assert "does not know" in await refused(broker, partition, prefix(schema.id))


async def test_a_schema_is_named_by_its_guid_too_also_in_a_header(broker: Broker) -> None:
    schema = await register(broker, "orders-value")
    guid = b"\1" + UUID(schema.content.guid).bytes
    partition = await topic(broker, **VALUE)
    value = payload({"id": 1})
    await accepted(broker, partition, guid + value)
    await accepted(broker, partition, value, headers=(("trace", None), ("__value_schema_id", guid)))
    await accepted(broker, partition, value, headers=(("__value_schema_id", prefix(schema.id)),))
    # The header of the key says nothing about the value.
    assert "without the number" in await refused(broker, partition, value, (("__key_schema_id", guid),))
    assert "bytes follow" in await refused(broker, partition, value + b"x", (("__value_schema_id", guid),))
    assert "does not know" in await refused(broker, partition, b"\1" * 17 + value)


# -- strategies


@pytest.mark.parametrize(("strategy", "before"), [("record", ""), ("topic-record", "orders-")])
@pytest.mark.parametrize("validation", ["id", "full"])
async def test_the_subject_is_that_of_the_strategy(broker: Broker, strategy: str, before: str, validation: str) -> None:
    partition = await topic(
        broker,
        **{
            "headwater.value.schema.validation": validation,
            "headwater.value.subject.name.strategy": strategy,
        },
    )
    avro = await register(broker, f"{before}shop.Order", ORDER)
    json = await register(broker, f"{before}Order", JSON_ORDER, JSON)
    await accepted(broker, partition, framed(avro, {"id": 1}), framed(json, {"id": 1}))
    # Of a Protobuf file each message has a subject of its own.
    proto = await register(broker, f"{before}shop.Refund", PROTO_ORDER, PROTOBUF)
    await accepted(broker, partition, prefix(proto.id, (1,)) + b"\n\1x")
    # The name of a type that may be another's is not told.
    elsewhere = f"not in the subject that its name makes (headwater.value.subject.name.strategy={strategy})"
    assert elsewhere in await refused(broker, partition, prefix(proto.id, (0,)))
    assert "no message [7]" in await refused(broker, partition, prefix(proto.id, (7,)))
    assert "indexes of the message are cut off" in await refused(broker, partition, prefix(proto.id))
    await register(broker, f"{before}shop.Order.Line", PROTO_ORDER, PROTOBUF)
    await accepted(broker, partition, prefix(proto.id, (0, 0)) + b"\n\1x")
    nameless = await register(broker, "nameless", '{"type":"object"}', JSON)
    assert "no name" in await refused(broker, partition, prefix(nameless.id) + b"{}")
    other = await register(broker, "orders-value", '"long"')
    assert elsewhere in await refused(broker, partition, prefix(other.id))


# -- full


@pytest.mark.parametrize(("kind", "text"), FORMATS)
async def test_full_decodes_and_says_what_is_wrong_where(broker: Broker, kind: SchemaType, text: str) -> None:
    schema = await register(broker, "orders-value", text, kind)
    partition = await topic(broker, **VALUE)
    good = framed(schema, {"id": 7})
    await accepted(broker, partition, good, None, good)
    head = prefix(schema.id, (0,) if kind is PROTOBUF else None)
    bad, problem = {
        AVRO: (head + b"\x80", "at /id: the value is cut off"),
        JSON: (head + b'{"id": "seven"}', "at /id: "),
        PROTOBUF: (head + b"\x12\x03\n\1\xff", "at /lines/item: "),
    }[kind]
    assert f"a value that does not follow schema {schema.id} {problem}" in await refused(broker, partition, bad)


async def test_references_are_resolved(broker: Broker) -> None:
    await register(broker, "money", '{"type":"record","name":"Money","fields":[{"name":"cents","type":"long"}]}')
    text = '{"type":"record","name":"Order","fields":[{"name":"total","type":"Money"}]}'
    schema = await register(broker, "orders-value", text, references=[Reference("Money", "money", 1)])
    partition = await topic(broker, **VALUE)
    await accepted(broker, partition, prefix(schema.id) + b"\x02")
    assert "/total/cents" in await refused(broker, partition, prefix(schema.id) + b"\x80")


async def test_all_records_at_fault_are_named(broker: Broker) -> None:
    schema = await register(broker, "orders-value")
    partition = await topic(broker, **VALUE)
    good = framed(schema, {"id": 1})
    values = [good, b"x", good, prefix(99), good + b"x", None]
    records = [Record(index, NOW_MS, b"k", value) for index, value in enumerate(values)]
    refusal = await outcome(broker, partition, bytes(batches.build(records)))
    assert isinstance(refusal, InvalidRecord)
    assert [index for index, _ in refusal.refused] == [1, 3, 4]
    assert "(3 records are refused)" in str(refusal)


async def test_a_payload_has_a_limit(broker: Broker) -> None:
    schema = await register(broker, "orders-value", '"bytes"')
    partition = await topic(broker, **VALUE, **{"max.message.bytes": "4000000"})
    value = prefix(schema.id) + payload(bytes(1 << 20), '"bytes"')
    assert "headwater.schemas.payload.bytes.max" in await refused(broker, partition, value)


# -- pinned subjects, keys


@pytest.mark.parametrize(("kind", "text"), FORMATS)
async def test_values_without_a_number_follow_the_latest_version_of_a_pinned_subject(
    broker: Broker, kind: SchemaType, text: str
) -> None:
    partition = await topic(broker, **VALUE, **{"headwater.value.schema.subject": "shop-orders"})
    value = payload({"id": 1}, text, kind)
    assert "subject 'shop-orders' has no schema" in await refused(broker, partition, value)
    schema = await register(broker, "shop-orders", text, kind)
    await accepted(broker, partition, value, framed(schema, {"id": 1}), None)
    problem = await refused(broker, partition, value + b"\xff")
    assert "does not follow version 1 of subject 'shop-orders' at " in problem


async def test_with_id_alone_a_pinned_subject_replaces_the_strategys(broker: Broker) -> None:
    schema = await register(broker, ":.shop:orders")
    await register(broker, "orders-value", '"int"')
    settings = {"headwater.value.schema.validation": "id", "headwater.value.schema.subject": ":.shop:orders"}
    partition = await topic(broker, **settings)
    await accepted(broker, partition, prefix(schema.id))
    assert "without the number" in await refused(broker, partition, payload({"id": 1}))
    # Ids are those of the context.
    in_default = await register(broker, "plain-value", '"int"')
    assert in_default.id == schema.id
    await accepted(broker, await topic(broker, "plain", **VALUE), prefix(schema.id) + b"\2")


async def test_keys_have_schemas_of_their_own(broker: Broker) -> None:
    schema = await register(broker, "orders-key", '"string"')
    partition = await topic(broker, **{"headwater.key.schema.validation": "full"})
    key = prefix(schema.id) + payload("k", '"string"')
    for bad, good in ((b"k", key), (key + b"x", None)):
        records = [Record(0, NOW_MS, good, b"any"), Record(1, NOW_MS, bad, b"any")]
        refusal = await outcome(broker, partition, bytes(batches.build(records)))
        assert isinstance(refusal, InvalidRecord)
        assert refusal.refused[0][0] == 1
        assert refusal.refused[0][1].startswith("has a key ")
        assert isinstance(await outcome(broker, partition, bytes(batches.build(records[:1]))), Append)


# -- large batches, settings, and a registry that is not there


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.GZIP])
async def test_large_batches_are_checked_in_a_thread(broker: Broker, codec: int) -> None:
    schema = await register(broker, "orders-value")
    partition = await topic(broker, **VALUE)
    values = [framed(schema, {"id": number}) for number in range(30_000)]
    assert isinstance(await outcome(broker, partition, _batch(values, codec)), Append)
    assert partition.end_offset == 30_000
    # In the first and in a later part; the second schema is one that the thread has to ask for.
    values[10], values[29_000] = b"x", prefix(99)
    refusal = await outcome(broker, partition, _batch(values, codec))
    assert isinstance(refusal, InvalidRecord)
    assert [index for index, _ in refusal.refused] == [10, 29_000]
    assert "does not know" in refusal.refused[1][1]
    assert partition.end_offset == 30_000


async def test_a_large_schema_is_parsed_in_a_thread(broker: Broker) -> None:
    fields = ",".join(f'{{"name":"field_{number}","type":"int"}}' for number in range(500))
    text = f'{{"type":"record","name":"Wide","fields":[{fields}]}}'
    schema = await register(broker, "orders-value", text)
    partition = await topic(broker, **VALUE)
    value = prefix(schema.id) + bytes(500)
    # At once neither the first time, nor the second, when it is ready.
    first = stage(broker, partition, _batch([value]))
    assert not first.is_done
    assert (await settled(first)).error is None
    await accepted(broker, partition, value)


def _batch(values: Sequence[bytes], codec: int = Codec.NONE, **options: Any) -> bytes:
    records = [Record(index, NOW_MS, None, value) for index, value in enumerate(values)]
    return bytes(batches.build(records, codec=codec, **options))


async def test_settings_change_what_is_taken(broker: Broker) -> None:
    partition = await topic(broker)
    await accepted(broker, partition, b"anything")
    # The broker's settings are defaults of topics.
    broker.reload(BrokerConfig.from_values({**QUIET, **SETTINGS, "headwater.value.schema.validation": "id"}))
    assert "without the number" in await refused(broker, partition, b"anything")
    await broker.topics.create("free", {"headwater.value.schema.validation": "none"}, partition_count=1)
    await accepted(broker, broker.partition("free", 0), b"anything")
    # Internal topics are no client's, and have no schemas.
    await register(broker, "orders-value")


async def test_a_broker_without_a_registry_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await topic(broker, **VALUE)
        refusal = await outcome(broker, partition, _batch([b"x"]))
        assert isinstance(refusal, HeadwaterError)
        assert refusal.code is ErrorCode.INVALID_CONFIG
        assert "headwater.schemas.enable" in str(refusal)


async def test_while_the_registry_is_loaded_again_producers_are_told_to_try_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        await broker.start()
        schema = await register(broker, "orders-value")
        partition = await topic(broker, **VALUE)
        batch = _batch([framed(schema, {"id": 1})])
        disk.cursed, disk.write_error = "_schemas", FULL
        with pytest.raises(RegistryRefusal):
            await register(broker, "orders-value", ORDER_WITH_NOTE)
        assert broker.schemas.state is None
        refusal = await outcome(broker, partition, batch)
        assert isinstance(refusal, HeadwaterError)
        assert refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS
        disk.heal()
        async with asyncio.timeout(TIMEOUT_S):
            while broker.schemas.state is None:
                await asyncio.sleep(0.01)
        await register(broker, "orders-value", ORDER_WITH_NOTE)
        assert isinstance(await outcome(broker, partition, batch), Append)


# -- with other features


async def test_delayed_records_are_checked_when_they_are_produced(broker: Broker) -> None:
    schema = await register(broker, "orders-value")
    partition = await topic(broker, **VALUE, **{"headwater.delay.enable": "true"})
    later: Headers = (("headwater-delay-ms", b"60000"),)
    assert "without the number" in await refused(broker, partition, b"x", later)
    assert "headwater-delay-ms" in await refused(broker, partition, b"x", (("headwater-delay-ms", b"soon"),))
    records = [Record(0, NOW_MS, b"k", framed(schema, {"id": 1}), later)]
    assert isinstance(await outcome(broker, partition, bytes(batches.build(records))), Append)
    assert readable(partition) == []
