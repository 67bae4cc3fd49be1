"""Pairs of Avro schemas, and whether each reads what the other wrote.

B: the second reads what the first wrote (a new version that is BACKWARD compatible). F: the first reads what the second
wrote (FORWARD). The verdicts are those of Avro's own library (SchemaCompatibility in org.apache.avro 1.12.0).
"""

from typing import Final


def record(*fields: str, name: str = "R", aliases: str = "") -> str:
    """A field is `name:type=default`; a type without quotation marks is a name, anything else is JSON."""
    written: list[str] = []
    for field in fields:
        stated, _, default = field.partition("=")
        field_name, _, kind = stated.partition(":")
        kind = kind if kind[:1] in '[{"' else f'"{kind}"'
        field_name, _, alias = field_name.partition("~")
        extra = (f',"default":{default}' if default else "") + (f',"aliases":["{alias}"]' if alias else "")
        written.append(f'{{"name":"{field_name}","type":{kind}{extra}}}')
    extra = f',"aliases":["{aliases}"]' if aliases else ""
    return f'{{"type":"record","name":"{name}"{extra},"fields":[{",".join(written)}]}}'


def enum(*symbols: str, name: str = "E", default: str = "") -> str:
    extra = f',"default":"{default}"' if default else ""
    quoted = ",".join(f'"{symbol}"' for symbol in symbols)
    return f'{{"type":"enum","name":"{name}","symbols":[{quoted}]{extra}}}'


def fixed(size: int, name: str = "F") -> str:
    return f'{{"type":"fixed","name":"{name}","size":{size}}}'


def array(items: str) -> str:
    return f'{{"type":"array","items":{items}}}'


def mapping(values: str) -> str:
    return f'{{"type":"map","values":{values}}}'


def union(*branches: str) -> str:
    return f"[{','.join(branches)}]"


def logical(kind: str, name: str, more: str = "") -> str:
    return f'{{"type":"{kind}","logicalType":"{name}"{more}}}'


_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# What a reader takes beside its own type, by Avro's specification.
_PROMOTED: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}


def _primitives() -> list[tuple[str, str, str]]:
    cases: list[tuple[str, str, str]] = []
    for number, first in enumerate(_PRIMITIVES):
        for second in _PRIMITIVES[number:]:
            backward = first == second or first in _PROMOTED.get(second, ())
            forward = first == second or second in _PROMOTED.get(first, ())
            cases.append((f'"{first}"', f'"{second}"', ("B" if backward else "") + ("F" if forward else "")))
    return cases


_TREE = (
    '{"type":"record","name":"Tree","fields":[{"name":"value","type":"%s"},{"name":"left","type":["null","Tree"]}%s]}'
)
_NESTED = record("inner:" + record("a:int", name="Inner"))

CASES: Final[list[tuple[str, str, str]]] = [
    *_primitives(),
    # Fields.
    (record("a:int"), record("a:int"), "BF"),
    (record("a:int"), record("a:int", "b:int"), "F"),
    (record("a:int"), record("a:int", "b:int=0"), "BF"),
    (record("a:int", "b:int"), record("b:int", "a:int"), "BF"),
    (record("a:int"), record("b:int"), ""),
    (record("a:int"), record("b:int=0"), "B"),
    (record("a:int=0"), record("b:int=0"), "BF"),
    (record("a:int"), record("b~a:int"), "B"),
    (record("a:int"), record("b~c:int"), ""),
    (record("a:int"), record("a:long"), "B"),
    (record("a:string"), record("a:bytes"), "BF"),
    (record("a:int"), record("a:string"), ""),
    (record("a:int"), record('a:["null","int"]'), "B"),
    (record("a:int"), record('a:["null","long"]'), "B"),
    (record("a:int"), record('a:["null","string"]'), ""),
    (record('a:["null","int"]'), record('a:["int","null"]'), "BF"),
    (record(), record("a:int"), "F"),
    (record(), record("a:int=1"), "BF"),
    (record(), record('a:["null","int"]=null'), "BF"),
    (record(), record('a:["null","int"]'), "F"),
    (record("a:" + enum("X", default="X")), record(), "B"),
    (record("a:" + enum("X")), record(), "B"),
    # Names.
    (record("a:int"), record("a:int", name="S"), ""),
    (record("a:int"), record("a:int", name="S", aliases="R"), "B"),
    (record("a:int", name="x.R"), record("a:int", name="y.R"), "BF"),
    (record("a:int", name="x.R"), record("a:int", name="y.S", aliases="x.R"), "B"),
    (record("a:int", name="x.R"), record("a:int", name="x.S", aliases="R"), "B"),
    # Enums.
    (enum("A", "B"), enum("A", "B"), "BF"),
    (enum("A", "B"), enum("B", "A"), "BF"),
    (enum("A"), enum("A", "B"), "B"),
    (enum("A"), enum("B"), ""),
    (enum("A", "B"), enum("A", default="A"), "BF"),
    (enum("A", "B", default="A"), enum("A", "C", default="A"), "BF"),
    (enum("A", "B"), enum("A", "C", default="A"), "B"),
    (enum("A"), enum("A", name="G"), ""),
    (enum("A"), '"string"', ""),
    (enum("A"), '"int"', ""),
    # Fixed.
    (fixed(4), fixed(4), "BF"),
    (fixed(4), fixed(8), ""),
    (fixed(4), fixed(4, name="G"), ""),
    (fixed(4), '"bytes"', ""),
    # Arrays and maps.
    (array('"int"'), array('"int"'), "BF"),
    (array('"int"'), array('"long"'), "B"),
    (array('"int"'), array('"string"'), ""),
    (array('"int"'), mapping('"int"'), ""),
    (array('"int"'), '"int"', ""),
    (mapping('"int"'), mapping('"int"'), "BF"),
    (mapping('"int"'), mapping('"double"'), "B"),
    (mapping('"int"'), mapping('"boolean"'), ""),
    (mapping(array('"int"')), mapping(array('"float"')), "B"),
    (array(record("a:int")), array(record("a:int", "b:int=0")), "BF"),
    (array(record("a:int")), array(record("a:int", "b:int")), "F"),
    (mapping(record("a:int")), mapping(record("a:int", name="S")), ""),
    (array(union('"null"', '"int"')), array('"int"'), "F"),
    # Unions.
    (union('"null"', '"int"'), union('"null"', '"int"'), "BF"),
    (union('"int"'), '"int"', "BF"),
    (union('"int"', '"string"'), union('"string"', '"int"'), "BF"),
    (union('"int"'), union('"int"', '"string"'), "B"),
    (union('"int"', '"string"'), '"int"', "F"),
    (union('"int"', '"long"'), '"long"', "BF"),
    (union('"int"', '"float"'), '"double"', "B"),
    (union('"int"'), union('"long"'), "B"),
    (union('"int"', '"boolean"'), union('"long"', '"string"'), ""),
    (union(), union('"int"'), "B"),
    ('"int"', union('"null"', '"int"'), "B"),
    ('"int"', union('"null"', '"string"'), ""),
    ('"bytes"', union('"null"', '"string"'), "B"),
    (union('"null"', record("a:int")), union('"null"', record("a:int", "b:int=0")), "BF"),
    (union('"null"', record("a:int")), union('"null"', record("a:int", "b:int")), "F"),
    (union(record("a:int"), record("b:int", name="S")), record("a:int"), "F"),
    (union(record("a:int", name="x.R")), union(record("a:int", name="y.R")), "BF"),
    (union(enum("A")), union(enum("A", "B")), "B"),
    (union('"null"', array('"int"')), union('"null"', array('"long"')), "B"),
    (union('"null"', mapping('"int"')), union('"null"', mapping('"string"')), ""),
    (union(fixed(4)), union(fixed(8)), ""),
    # Records in records, and in themselves.
    (_NESTED, record("inner:" + record("a:int", "b:int", name="Inner")), "F"),
    (_NESTED, record("inner:" + record("a:long", name="Inner")), "B"),
    (_NESTED, record("inner:" + record("a:int", name="Other")), ""),
    (_NESTED, record('inner:["null",' + record("a:int", name="Inner") + "]"), "B"),
    (_TREE % ("int", ""), _TREE % ("int", ""), "BF"),
    (_TREE % ("int", ""), _TREE % ("long", ""), "B"),
    (_TREE % ("int", ""), _TREE % ("string", ""), ""),
    (_TREE % ("int", ""), _TREE % ("int", ',{"name":"right","type":["null","Tree"]}'), "F"),
    (_TREE % ("int", ""), _TREE % ("int", ',{"name":"right","type":["null","Tree"],"default":null}'), "BF"),
    # Logical types and properties mean nothing to Avro's rules.
    ('"int"', logical("int", "date"), "BF"),
    (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "BF"),
    (logical("int", "time-millis"), logical("long", "time-micros"), "B"),
    ('"bytes"', logical("bytes", "decimal", ',"precision":9,"scale":2'), "BF"),
    (
        logical("bytes", "decimal", ',"precision":9,"scale":2'),
        logical("bytes", "decimal", ',"precision":4,"scale":1'),
        "BF",
    ),
    ('"string"', logical("string", "uuid"), "BF"),
    ('{"type":"string","avro.java.string":"String"}', '"string"', "BF"),
    (record("a:int"), record("a:int").replace('"name":"R"', '"name":"R","doc":"an R"'), "BF"),
]
