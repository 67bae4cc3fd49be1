"""Pairs of Protobuf schemas, and whether each reads what follows the other, by the rules of Confluent's registry.

B: the second reads what follows the first (BACKWARD). F: the first reads what follows the second (FORWARD).
"""

from typing import Final


def m(*members: str, name: str = "M", syntax: str = "proto3", around: str = "") -> str:
    body = " ".join(members)
    return f'syntax = "{syntax}"; {around} message {name} {{ {body} }}'


def m2(*members: str, around: str = "") -> str:
    return m(*members, syntax="proto2", around=around)


_KINDS: Final = (
    ("int32", "int64", "uint32", "uint64", "bool"),
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
)


def _scalars() -> list[tuple[str, str, str]]:
    """Scalars of a kind are read as each other, others are not."""
    cases: list[tuple[str, str, str]] = []
    for number, kind in enumerate(_KINDS):
        cases += [(m(f"{kind[0]} a = 1;"), m(f"{other} a = 1;"), "BF") for other in kind]
        cases += [(m(f"{kind[0]} a = 1;"), m(f"{other[0]} a = 1;"), "") for other in _KINDS[number + 1 :]]
    return cases


_ENUM = "enum E { X = 0; Y = 1; }"
_INNER = "message Inner { int32 x = 1; }"

CASES: Final[list[tuple[str, str, str]]] = [
    *_scalars(),
    # Fields.
    (m("int32 a = 1;"), m("int32 a = 1;"), "BF"),
    (m("int32 a = 1;"), m("int32 a = 1; int32 b = 2;"), "BF"),
    (m("int32 a = 1;"), m("int32 b = 1;"), "BF"),
    (m("int32 a = 1;"), m("int32 a = 2;"), "BF"),
    (m("int32 a = 1; int32 b = 2;"), m("int32 b = 2; int32 a = 1;"), "BF"),
    (m("int32 a = 1;"), m(), "BF"),
    (m("int32 a = 1;"), m("reserved 1;"), "BF"),
    (m("int32 a = 1;"), m("repeated int32 a = 1;"), "BF"),
    (m("string a = 1;"), m("repeated string a = 1;"), "BF"),
    (m("optional int32 a = 1;"), m("repeated int32 a = 1;"), ""),
    (m("optional string a = 1;"), m("repeated string a = 1;"), "BF"),
    (m("optional int32 a = 1;"), m("int32 a = 1;"), "BF"),
    (m("int32 a = 1;"), m("int32 a = 1 [deprecated = true];"), "BF"),
    (m2("optional int32 a = 1;"), m2("required int32 a = 1;"), ""),
    (m2("optional string a = 1;"), m2("required string a = 1;"), "BF"),
    (m2("optional int32 a = 1;"), m2("optional int32 a = 1; required int32 b = 2;"), ""),
    (m2("optional int32 a = 1;"), m2("optional int32 a = 1; optional int32 b = 2;"), "BF"),
    (m2("optional int32 a = 1;"), m2("optional int32 a = 1 [default = 5];"), "BF"),
    # Enums.
    (m("E a = 1;", around=_ENUM), m("int32 a = 1;"), "BF"),
    (m("E a = 1;", around=_ENUM), m("string a = 1;"), ""),
    (m("E a = 1;", around=_ENUM), m("E a = 1;", around="enum E { X = 0; }"), "BF"),
    (m("E a = 1;", around=_ENUM), m("E a = 1;", around="enum E { X = 0; Z = 1; }"), "BF"),
    (m("E a = 1;", around=_ENUM), m("G a = 1;", around="enum G { X = 0; }"), "BF"),
    (m("E a = 1;", around=_ENUM), m("E a = 1;", _ENUM), "BF"),
    # Messages in messages.
    (m("Inner a = 1;", around=_INNER), m("Inner a = 1;", around=_INNER), "BF"),
    (m("Inner a = 1;", around=_INNER), m("int32 a = 1;", around=_INNER), ""),
    (m("Inner a = 1;", around=_INNER), m("repeated Inner a = 1;", around=_INNER), "BF"),
    (m("Inner a = 1;", around=_INNER), m("Inner a = 1;", around="message Inner { int64 x = 1; }"), "BF"),
    (m("Inner a = 1;", around=_INNER), m("Inner a = 1;", around="message Inner { string x = 1; }"), ""),
    (m("Inner a = 1;", around=_INNER), m("Inner a = 1;", around="message Inner { }"), "BF"),
    (m("Inner a = 1;", around=_INNER), m("Other a = 1;", around="message Other { int32 x = 1; }"), ""),
    (m("Inner a = 1;", _INNER), m("Inner a = 1;", _INNER), "BF"),
    (m("Inner a = 1;", _INNER), m("M.Inner a = 1;", _INNER), "BF"),
    (m("Inner a = 1;", _INNER), m(".M.Inner a = 1;", _INNER), "BF"),
    (m("Inner a = 1;", _INNER), m("Inner a = 1;", around=_INNER), ""),
    (m(_INNER), m(), "F"),
    (m("M next = 1;"), m("M next = 1; int32 a = 2;"), "BF"),
    (m("M next = 1;"), m("N next = 1;", name="N"), ""),
    # Messages of a file.
    (m("int32 a = 1;"), m("int32 a = 1;") + " message N { }", "B"),
    (m("int32 a = 1;") + " message N { }", 'syntax = "proto3"; message N { } message M { int32 a = 1; }', "BF"),
    (m("int32 a = 1;"), m("int32 a = 1;") + " enum E { X = 0; }", "BF"),
    (m("int32 a = 1;"), m("int32 a = 1;", around="package p;"), ""),
    (m("int32 a = 1;", around="package p;"), m("int32 a = 1;", around="package q;"), ""),
    (m("int32 a = 1;"), m("int32 a = 1;", around='option java_package = "p";'), "BF"),
    (m("int32 a = 1;"), m("int32 a = 1;", around='import "google/protobuf/any.proto";'), "BF"),
    (m("int32 a = 1;"), m("int32 a = 1;") + " service S { rpc R (M) returns (stream M); }", "BF"),
    (m("int32 a = 1;"), m2("optional int32 a = 1;"), "BF"),
    # Maps.
    (m("map<string, int32> a = 1;"), m("map<string, int32> a = 1;"), "BF"),
    (m("map<string, int32> a = 1;"), m("map<string, int64> a = 1;"), "BF"),
    (m("map<string, int32> a = 1;"), m("map<string, string> a = 1;"), ""),
    (m("map<string, int32> a = 1;"), m("map<int32, int32> a = 1;"), ""),
    (m("map<string, int32> a = 1;"), m("string a = 1;"), ""),
    (m("map<string, Inner> a = 1;", around=_INNER), m("map<string, Inner> a = 1;", around=_INNER), "BF"),
    (m("map<string, Inner> a = 1;", around=_INNER), m("map<string, int32> a = 1;", around=_INNER), ""),
    # Choices.
    (m("oneof c { int32 a = 1; }"), m("oneof c { int32 a = 1; }"), "BF"),
    (m("oneof c { int32 a = 1; }"), m("oneof c { int32 a = 1; string b = 2; }"), "B"),
    (m("oneof c { int32 a = 1; string b = 2; }"), m("oneof c { string b = 2; int32 a = 1; }"), "BF"),
    (m("oneof c { int32 a = 1; }"), m("oneof d { int32 a = 1; }"), "BF"),
    (m("oneof c { int32 a = 1; }"), m("int32 a = 1;"), "BF"),
    (m("int32 a = 1; int32 b = 2;"), m("oneof c { int32 a = 1; int32 b = 2; }"), "F"),
    (m("int32 a = 1; oneof c { int32 b = 2; }"), m("oneof c { int32 a = 1; int32 b = 2; }"), "F"),
    (m("int32 a = 1;"), m("oneof c { int32 a = 1; int32 b = 2; }"), "B"),
    (m("oneof c { int32 a = 1; }"), m(), "BF"),
    (m("oneof c { int32 a = 1; }"), m("oneof c { int64 a = 1; }"), "BF"),
    (m("oneof c { int32 a = 1; }"), m("oneof c { string a = 1; }"), ""),
    (m("oneof c { int32 a = 1; string b = 2; }"), m("oneof c { int32 a = 1; } string b = 2;"), "B"),
]
