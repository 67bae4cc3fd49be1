"""The schema registry as a whole: what clients register is there, with Confluent's rules, and after a restart."""

import asyncio
from pathlib import Path

import pytest

from headwater.coordination.schemas import refusals
from headwater.coordination.schemas.commands import Registration
from headwater.coordination.schemas.refusals import RegistryRefusal
from headwater.coordination.schemas.terms import LATEST, Mode
from headwater.errors import ConfigError, ErrorCode, Refusal
from headwater.protocol.batches.records import Record
from headwater.registry.parsed import SchemaType
from tests.support.broker import embedded_broker
from tests.support.broker.schemas import ENABLED, content, record, register, running, running_broker


async def refused(number: int, awaitable: object) -> RegistryRefusal:
    with pytest.raises(RegistryRefusal) as caught:
        await awaitable  # type: ignore[misc]
    assert caught.value.number == number, caught.value
    return caught.value


async def test_equal_schemas_have_one_id_and_versions_count_up(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        first = await register(registry, "orders-value", record("id"))
        again = await register(registry, "orders-value", record("id"))
        spaced = await register(registry, "orders-value", record("id").replace(",", " , "))
        elsewhere = await register(registry, "payments-value", record("id"))
        second = await register(registry, "orders-value", record("id", 'note=""'))

    assert (first.id, first.version) == (1, 1)
    assert again == first
    assert spaced == first
    assert (elsewhere.id, elsewhere.version) == (1, 1)
    assert (second.id, second.version) == (2, 2)


async def test_an_incompatible_schema_is_refused_in_confluents_words(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await register(registry, "orders-value", record("id"))
        refusal = await refused(refusals.INCOMPATIBLE, register(registry, "orders-value", record("id", "note")))

    assert refusal.status == 409
    assert refusal.message == (
        'Schema being registered is incompatible with an earlier schema for subject "orders-value", details: '
        "[{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'note' at path '/fields/1' in the "
        "new schema has no default value and is missing in the old schema', additionalInfo:'note'}, "
        "{oldSchemaVersion: 1}, "
        f"{{oldSchema: '{record('id')}'}}, {{validateFields: 'false', compatibility: 'BACKWARD'}}]"
    )


async def test_everything_is_there_after_a_crash(tmp_path: Path) -> None:
    broker = embedded_broker.start(tmp_path, ENABLED)
    await broker.start()
    await register(broker.schemas, "orders-value", record("id"))
    await register(broker.schemas, ":.staging:orders-value", record("other"))
    await broker.schemas.configure("orders-value", {"compatibilityLevel": "FULL"})
    await broker.schemas.set_mode("done", Mode.READONLY, is_forced=False)
    await broker.schemas.delete_subject("orders-value", is_permanent=False)
    await embedded_broker.crash(broker)

    async with running(tmp_path) as registry:
        state = (await registry.ask(lambda machine: machine)).state

        assert state.find("orders-value", 1) is None
        assert state.find("orders-value", 1, with_deleted=True) is not None
        assert state.find(":.staging:orders-value", LATEST) is not None
        assert state.contexts == {".staging"}
        assert state.config_in_scope("orders-value").compatibility == "FULL"
        assert state.mode_in_scope("done") is Mode.READONLY


async def test_an_id_never_returns_even_after_its_schema_is_deleted_for_good(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await register(registry, "a", record("one"))
        gone = await register(registry, "b", record("two"))
        await registry.delete_subject("b", is_permanent=False)
        await registry.delete_subject("b", is_permanent=True)
    async with running(tmp_path) as registry:
        following = await register(registry, "b", record("three"))

    assert gone.id == 2
    assert following.id == 3


async def test_concurrent_registrations_agree(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await registry.configure(None, {"compatibilityLevel": "NONE"})
        wanted = [(f"subject-{number % 7}", record(f"field{number % 23}")) for number in range(400)]
        stored = await asyncio.gather(*(register(registry, subject, text) for subject, text in wanted))

    by_text = {
        text: {each.id for each, (_, other) in zip(stored, wanted, strict=True) if other == text} for _, text in wanted
    }
    assert all(len(ids) == 1 for ids in by_text.values())
    assert len({next(iter(ids)) for ids in by_text.values()}) == len(by_text) == 23
    places = {(each.subject, each.version): each.id for each in stored}
    for subject in {subject for subject, _ in wanted}:
        versions = sorted(version for name, version in places if name == subject)
        assert versions == list(range(1, len(versions) + 1))


async def test_deletion_is_soft_first_and_then_for_good(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await register(registry, "orders", record("id"))
        await register(registry, "orders", record("id", 'note=""'))
        await refused(refusals.SUBJECT_NOT_SOFT_DELETED, registry.delete_subject("orders", is_permanent=True))
        await refused(refusals.VERSION_NOT_SOFT_DELETED, registry.delete_version("orders", 1, is_permanent=True))
        assert await registry.delete_version("orders", LATEST, is_permanent=False) == 2
        await refused(refusals.VERSION_SOFT_DELETED, registry.delete_version("orders", 2, is_permanent=False))
        assert await registry.delete_subject("orders", is_permanent=False) == [1]
        await refused(refusals.SUBJECT_SOFT_DELETED, registry.delete_subject("orders", is_permanent=False))
        assert await registry.delete_subject("orders", is_permanent=True) == [1, 2]
        await refused(refusals.SUBJECT_NOT_FOUND, registry.delete_subject("orders", is_permanent=True))


async def test_a_schema_that_others_refer_to_stays(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await register(registry, "address", record("street", name="Address"))
        person = '{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"}]}'
        stored = await register(registry, "person", person, references=[("Address", "address", 1)])
        await refused(refusals.REFERENCE_EXISTS, registry.delete_version("address", 1, is_permanent=False))
        await refused(refusals.REFERENCE_EXISTS, registry.delete_subject("address", is_permanent=False))
        referrers = await registry.ask(lambda m: m.state.referrers_of("address", 1, with_deleted=False))
        await refused(
            refusals.INVALID_SCHEMA, register(registry, "person", person, references=[("Address", "address", 9)])
        )
        resolved = await registry.formatted(stored, "resolved")

    assert [each.id for each in referrers] == [stored.id]
    assert '"name":"Address"' in resolved


async def test_a_schema_with_its_references_in_its_text_is_the_same(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await register(registry, "address", record("street", name="Address"))
        person = '{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"}]}'
        stored = await register(registry, "person", person, references=[("Address", "address", 1)])
        whole = person.replace('"Address"', record("street", name="Address"))
        again = await register(registry, "person", whole)
        found = await registry.look_up(Registration("person", content(whole)))

    assert again == stored
    assert found == stored


async def test_import_keeps_ids_and_versions(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await refused(refusals.NOT_PERMITTED, register(registry, "orders", record("id"), version=7, schema_id=70))
        await registry.set_mode("orders", Mode.IMPORT, is_forced=False)
        await refused(refusals.NOT_PERMITTED, register(registry, "orders", record("id")))
        stored = await register(registry, "orders", record("id"), version=7, schema_id=70)
        earlier = await register(registry, "orders", record("other"), version=3, schema_id=30)
        await refused(refusals.NOT_PERMITTED, register(registry, "orders", record("third"), version=8, schema_id=70))
        await registry.set_mode("orders", Mode.READWRITE, is_forced=False)
        await registry.configure("orders", {"compatibilityLevel": "NONE"})
        following = await register(registry, "orders", record("fourth"))

    assert (stored.version, stored.id) == (7, 70)
    assert (earlier.version, earlier.id) == (3, 30)
    assert (following.version, following.id) == (8, 71)


async def test_a_subject_that_is_only_read_refuses_changes(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await register(registry, "orders", record("id"))
        await registry.set_mode(None, Mode.READONLY, is_forced=False)
        await refused(refusals.NOT_PERMITTED, register(registry, "orders", record("id", 'note=""')))
        await refused(refusals.NOT_PERMITTED, registry.delete_subject("orders", is_permanent=False))
        await refused(refusals.NOT_PERMITTED, registry.configure("orders", {"compatibilityLevel": "NONE"}))
        await refused(refusals.NOT_PERMITTED, registry.set_mode(None, Mode.IMPORT, is_forced=False))


async def test_contexts_have_ids_of_their_own(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        here = await register(registry, "orders", record("id"))
        there = await register(registry, ":.staging:orders", record("another"))
        found = await registry.ask(lambda machine: machine.with_id(1, ":.staging:"))

    assert here.id == there.id == 1
    assert found == there


async def test_metadata_and_rules_are_taken_over_from_the_version_before(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await register(registry, "orders", record("id"), metadata={"properties": {"owner": "ann"}})
        await registry.configure("orders", {"defaultMetadata": {"properties": {"team": "a"}}})
        second = await register(registry, "orders", record("id", 'note=""'))
        found = await registry.ask(lambda m: m.latest_with("orders", {"owner": "ann", "team": "a"}, with_deleted=False))

    assert second.content.metadata == {"properties": {"team": "a", "owner": "ann"}}
    assert found == second


async def test_a_compatibility_group_separates_histories(tmp_path: Path) -> None:
    async with running(tmp_path) as registry:
        await registry.configure("orders", {"compatibilityGroup": "major"})
        await register(registry, "orders", record("id"), metadata={"properties": {"major": "1"}})
        other = await register(registry, "orders", record("no"), metadata={"properties": {"major": "2"}})
        await refused(
            refusals.INCOMPATIBLE,
            register(registry, "orders", record("no", "x"), metadata={"properties": {"major": "2"}}),
        )

    assert other.version == 2


async def test_normal_forms_of_equal_schemas_are_one(tmp_path: Path) -> None:
    one = '{"type":"object","properties":{"a":{"type":"string"}},"title":"T"}'
    other = '{"title":"T","properties":{"a":{"type":"string"}},"type":"object"}'
    async with running(tmp_path) as registry:
        first = await register(registry, "s", one, SchemaType.JSON, normalize=True)
        second = await register(registry, "s", other, SchemaType.JSON, normalize=True)

    assert first == second


async def test_clients_cannot_write_to_the_topic_of_a_registry_nor_delete_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        appended = await broker.append(broker.partition("_schemas", 0), [Record(0, 0, b"k", b"v")]).wait()
        with pytest.raises(Refusal, match="internal"):
            await broker.topics.delete("_schemas")
        with pytest.raises(Refusal, match="internal"):
            await broker.delete_records("_schemas", 0, 0)
    async with embedded_broker.running(tmp_path) as broker:
        # Beside another registry it is a topic like any other.
        copied = await broker.append(broker.partition("_schemas", 0), [Record(0, 0, b"k", b"v")]).wait()

    assert appended.error is not None
    assert appended.error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert copied.error is None


async def test_a_topic_that_would_lose_schemas_keeps_the_registry_from_starting(tmp_path: Path) -> None:
    async with embedded_broker.running(tmp_path) as broker:
        await embedded_broker.create(broker, "_schemas", cleanup_policy="delete")
    broker = embedded_broker.start(tmp_path, ENABLED)

    with pytest.raises(ConfigError, match=r"cleanup\.policy=compact"):
        await broker.start()

    await broker.stop()


async def test_a_large_schema_is_worked_on_in_a_thread(tmp_path: Path) -> None:
    text = record(*(f"field{number}:long" for number in range(3000)))
    async with running(tmp_path) as registry:
        stored = await register(registry, "wide", text)
        longer = await register(registry, "wide", record(*(f"field{number}:double" for number in range(3000))))

    assert (stored.version, longer.version) == (1, 2)


async def test_a_registry_that_is_full_says_which_setting_to_change(tmp_path: Path) -> None:
    async with running(tmp_path, {"headwater.schemas.max": "1"}) as registry:
        await register(registry, "a", record("one"))
        refusal = await refused(refusals.NOT_PERMITTED, register(registry, "b", record("two")))

    assert "headwater.schemas.max" in refusal.message
