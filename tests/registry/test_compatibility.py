"""The rules of compatibility: a table of pairs for each format, with the verdicts of Confluent's registry."""

from collections.abc import Iterator

import pytest

from headwater.registry.compatibility import Level, Version, check
from headwater.registry.formats import parse
from headwater.registry.parsed import Document, ParsedSchema, Policy, SchemaType
from tests.registry.cases import avro, json_schema, protobuf

TABLES = {SchemaType.AVRO: avro.CASES, SchemaType.JSON: json_schema.CASES, SchemaType.PROTOBUF: protobuf.CASES}


def cases() -> Iterator[object]:
    for kind, table in TABLES.items():
        for number, (first, second, verdict) in enumerate(table):
            yield pytest.param(kind, first, second, verdict, id=f"{kind.lower()}-{number}")


def read(kind: SchemaType, text: str) -> ParsedSchema:
    return parse(Document(kind, text))


@pytest.mark.parametrize(("kind", "first", "second", "verdict"), list(cases()))
def test_table(kind: SchemaType, first: str, second: str, verdict: str) -> None:
    old, new = read(kind, first), read(kind, second)

    found = "".join(
        letter
        for letter, level in (("B", Level.BACKWARD), ("F", Level.FORWARD))
        if not check(level, Policy.STRICT, new, [Version(1, old)])
    )

    assert found == verdict, [
        check(Level.BACKWARD, Policy.STRICT, new, [Version(1, old)]),
        check(Level.FORWARD, Policy.STRICT, new, [Version(1, old)]),
    ]


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert sum(map(len, TABLES.values())) >= 300


@pytest.mark.parametrize("kind", TABLES)
def test_every_schema_is_compatible_with_itself_and_keeps_its_canonical_form(kind: SchemaType) -> None:
    for text in dict.fromkeys(text for first, second, _ in TABLES[kind] for text in (first, second)):
        schema = read(kind, text)
        again = read(kind, schema.canonical)

        assert again.canonical == schema.canonical
        assert check(Level.FULL, Policy.STRICT, again, [Version(1, schema)]) == []
        assert read(kind, schema.normalized().canonical).normalized().canonical == schema.normalized().canonical


@pytest.mark.parametrize("kind", TABLES)
def test_full_is_backward_and_forward(kind: SchemaType) -> None:
    for first, second, verdict in TABLES[kind]:
        messages = check(Level.FULL, Policy.STRICT, read(kind, second), [Version(1, read(kind, first))])

        assert (messages == []) is (verdict == "BF")


def test_transitive_levels_look_at_all_versions_and_others_at_the_latest() -> None:
    def of(*fields: str) -> ParsedSchema:
        return read(SchemaType.AVRO, avro.record(*fields))

    versions = [Version(1, of()), Version(2, of("a:int=0")), Version(3, of("a:int=0", "b:int=0"))]
    new = of("a:int", "b:int")

    assert check(Level.BACKWARD, Policy.STRICT, new, versions) == []
    messages = check(Level.BACKWARD_TRANSITIVE, Policy.STRICT, new, versions)
    assert "'b'" in messages[0]
    assert "{oldSchemaVersion: 2}" in messages
    assert check(Level.NONE, Policy.STRICT, of("c:int"), versions) == []


def test_schemas_of_different_formats_are_not_compatible() -> None:
    old, new = read(SchemaType.JSON, "{}"), read(SchemaType.AVRO, '"int"')

    messages = check(Level.FULL, Policy.STRICT, new, [Version(1, old)])

    assert messages == ["Incompatible because of different schema type"]


def test_lenient_takes_new_properties_of_open_objects() -> None:
    old, new = (read(SchemaType.JSON, text) for text in (json_schema.obj(""), json_schema.obj(f'"a":{json_schema.S}')))

    assert check(Level.BACKWARD, Policy.STRICT, new, [Version(1, old)]) != []
    assert check(Level.BACKWARD, Policy.LENIENT, new, [Version(1, old)]) == []
