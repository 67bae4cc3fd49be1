"""A .proto file as a tree. Comments and blanks are gone; everything else is as it was written."""

from dataclasses import dataclass, field
from typing import Final

INTEGERS: Final = frozenset(
    {"int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"}
)
SCALARS: Final = INTEGERS | {"double", "float", "bool", "string", "bytes"}
TAG_MAX: Final = 536_870_911


@dataclass(frozen=True, slots=True)
class Word:
    """A value that stands without quotation marks: a number, a boolean or the name of an enum's constant."""

    text: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A message in text format, as the value of an option."""

    entries: tuple[tuple[str, "Value"], ...]


# A string is what was between quotation marks.
Value = str | Word | Aggregate | tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Option:
    # With parentheses where it is an extension.
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class MapType:
    key: str
    value: str


@dataclass(slots=True)
class Field:
    name: str
    tag: int
    # A scalar, the name of a message or an enum, or a map.
    type: str | MapType
    # optional, required, repeated; empty where there is none.
    label: str = ""
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class Group:
    name: str
    tag: int
    label: str
    fields: list[Field] = field(default_factory=list[Field])


@dataclass(slots=True)
class OneOf:
    name: str
    fields: list[Field] = field(default_factory=list[Field])
    groups: list[Group] = field(default_factory=list[Group])
    options: list[Option] = field(default_factory=list[Option])


# Numbers from one to another, both included, and names.
Range = tuple[int, int]
Reserved = tuple[Range | str, ...]


@dataclass(slots=True)
class Extensions:
    ranges: tuple[Range, ...]
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class Extend:
    name: str
    fields: list[Field] = field(default_factory=list[Field])


@dataclass(slots=True)
class Constant:
    name: str
    tag: int
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class EnumType:
    name: str
    constants: list[Constant] = field(default_factory=list[Constant])
    reserved: list[Reserved] = field(default_factory=list[Reserved])
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class Message:
    name: str
    fields: list[Field] = field(default_factory=list[Field])
    oneofs: list[OneOf] = field(default_factory=list[OneOf])
    groups: list[Group] = field(default_factory=list[Group])
    messages: list["Message"] = field(default_factory=list["Message"])
    enums: list[EnumType] = field(default_factory=list[EnumType])
    reserved: list[Reserved] = field(default_factory=list[Reserved])
    extensions: list[Extensions] = field(default_factory=list[Extensions])
    extends: list[Extend] = field(default_factory=list[Extend])
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class Rpc:
    name: str
    request: str
    response: str
    streams_request: bool = False
    streams_response: bool = False
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class Service:
    name: str
    rpcs: list[Rpc] = field(default_factory=list[Rpc])
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class File:
    # proto2, proto3; or of an edition, its number. Empty where the file says nothing.
    syntax: str = ""
    edition: str = ""
    package: str = ""
    imports: list[str] = field(default_factory=list[str])
    public_imports: list[str] = field(default_factory=list[str])
    messages: list[Message] = field(default_factory=list[Message])
    enums: list[EnumType] = field(default_factory=list[EnumType])
    extends: list[Extend] = field(default_factory=list[Extend])
    services: list[Service] = field(default_factory=list[Service])
    options: list[Option] = field(default_factory=list[Option])
