"""How a message is declared: a class with typed fields, each with the versions that carry it.

Classes are frozen for the type checker only: a guard at run time would cost more than decoding does. Default structures
are shared between messages, so they must not be changed in place.

A declaration is resolved on first use: most messages are never sent, and start-up time counts.
"""

from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypeAlias,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)
from uuid import UUID

VERSION_MAX = 32767
ALL_VERSIONS = "0+"

# Bounds what a request can cost: an element of two bytes becomes an object fifty times as large, and work for a
# handler. No client needs this many in one request. Responses may have more.
ELEMENTS_MAX = 100_000

# Also in versions whose length could be larger: a text that is read in one version is stored, and written in others.
TEXT_BYTES_MAX = 32767


class Scalar(NamedTuple):
    """A value of fixed width; `format` is its letter in the struct module."""

    format: str
    size: int
    default: object = 0


class PrefixedBytes(NamedTuple):
    """Bytes behind a length: text, bytes or records. `length_format` is that of the length in inflexible versions."""

    length_format: str
    default: object


class Array(NamedTuple):
    element: "Kind"


class NestedStruct(NamedTuple):
    struct: "type[Struct]"


Kind: TypeAlias = Scalar | PrefixedBytes | Array | NestedStruct

BOOL = Scalar("?", 1, False)
IDENTIFIER = Scalar("16s", 16, UUID(int=0))
TEXT = PrefixedBytes("h", "")
BYTES = PrefixedBytes("i", b"")
RECORDS = PrefixedBytes("i", None)

int8 = Annotated[int, Scalar("b", 1)]
int16 = Annotated[int, Scalar("h", 2)]
int32 = Annotated[int, Scalar("i", 4)]
int64 = Annotated[int, Scalar("q", 8)]
uint16 = Annotated[int, Scalar("H", 2)]
uint32 = Annotated[int, Scalar("I", 4)]
float64 = Annotated[float, Scalar("d", 8, 0.0)]

# Reading returns a memoryview of the input. Writing takes bytes-like objects, and any other object that has a length
# (such as a range of a file), which it passes on unencoded. No type expresses both.
Records = Annotated[Any, RECORDS]

_PLAIN_KINDS: dict[object, Kind] = {bool: BOOL, str: TEXT, bytes: BYTES, UUID: IDENTIFIER}

UNSET = object()


class Field(NamedTuple):
    """One field of a structure, resolved from its declaration."""

    name: str
    kind: Kind
    versions: range
    nullable: range
    tag: int | None
    tagged: range
    default: object


class _FieldOptions(NamedTuple):
    versions: str = ALL_VERSIONS
    nullable: str | None = None
    tag: int | None = None
    tagged: str | None = None
    default: object = UNSET


def field(
    *,
    versions: str = ALL_VERSIONS,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    default: object = UNSET,
) -> Any:
    """Adds to an annotation; `nullable` narrows the versions in which an `X | None` may be null."""
    return _FieldOptions(versions, nullable, tag, tagged, default)


def parse_versions(text: str) -> range:
    """Parses `"3"`, `"0-4"`, `"3+"` or `"none"`, as in Kafka's own definitions."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), VERSION_MAX + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _resolve(annotation: Any) -> tuple[Kind, bool]:
    """The kind of an annotation, and whether it admits None."""
    origin = get_origin(annotation)
    if origin in (UnionType, Union):
        (present,) = (choice for choice in get_args(annotation) if choice is not NoneType)
        return _resolve(present)[0], True
    if origin is Annotated:
        return get_args(annotation)[1], False
    if origin is list:
        return Array(_resolve(get_args(annotation)[0])[0]), False
    if isinstance(annotation, StructType):
        return NestedStruct(cast("type[Struct]", annotation)), False
    return _PLAIN_KINDS[annotation], False


def _default_of(kind: Kind) -> object:
    match kind:
        case Scalar() | PrefixedBytes():
            return kind.default
        case Array():
            return []
        case NestedStruct():
            return kind.struct()


def _declare(name: str, annotation: object, value: object) -> Field:
    options = value if isinstance(value, _FieldOptions) else _FieldOptions(default=value)
    kind, is_nullable = _resolve(annotation)
    if options.default is not UNSET:
        default = options.default
    else:
        default = None if is_nullable else _default_of(kind)
    nullable = (options.nullable or ALL_VERSIONS) if is_nullable else "none"
    tagged = options.tagged or (options.versions if options.tag is not None else "none")
    return Field(
        name=name,
        kind=kind,
        versions=parse_versions(options.versions),
        nullable=parse_versions(nullable),
        tag=options.tag,
        tagged=parse_versions(tagged),
        default=default,
    )


def _compile_init(fields: Iterable[Field]) -> Callable[..., None]:
    """`__init__` as straight-line code, because every message passes through it."""
    parameters = ["self"]
    stores: list[str] = []
    names: dict[str, Any] = {"UNSET": UNSET}
    for declared in fields:
        name = declared.name
        if isinstance(declared.default, list):
            # Lists are filled after construction, so each message needs its own.
            parameters.append(f"{name}=UNSET")
            stores.append(f"    self.{name} = [] if {name} is UNSET else {name}")
        else:
            parameters.append(f"{name}=default_{name}")
            stores.append(f"    self.{name} = {name}")
            names[f"default_{name}"] = declared.default
    if stores:
        parameters.insert(1, "*")
    lines = [f"def __init__({', '.join(parameters)}):", *(stores or ["    pass"])]
    exec("\n".join(lines), names)  # noqa: S102
    return names["__init__"]


def _first_init(self: "Struct", **values: Any) -> None:
    """The `__init__` of a class until its first call, which replaces it by the compiled one."""
    struct = type(self)
    compiled = struct.__init__ = _compile_init(struct.__fields__)
    compiled(self, **values)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class StructType(type):
    """Turns annotations into slots, fields and methods.

    `field` is on purpose not declared as a field specifier to the type checker. Any assigned value then counts as a
    default: a field that some versions lack may be left out, while a bare annotation must be given.
    """

    _declared: dict[str, tuple[Any, object]]
    _fields: tuple[Field, ...] | None

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> "StructType":
        annotations: dict[str, Any] = namespace.get("__annotations__", {})
        declared = {
            attribute: (annotation, namespace.pop(attribute, UNSET))
            for attribute, annotation in annotations.items()
            if get_origin(annotation) is not ClassVar
        }
        for attribute in declared:
            # The slot would hide an attribute of `Message`.
            if any(hasattr(base, attribute) for base in bases):
                raise TypeError(f"{name}.{attribute} has the name of an attribute that every message has")
        namespace["__slots__"] = tuple(declared)
        namespace["__init__"] = _first_init
        struct = super().__new__(cls, name, bases, namespace, **options)
        struct._declared = declared
        struct._fields = None
        return struct

    @property
    def __fields__(cls) -> tuple[Field, ...]:
        if cls._fields is None:
            cls._fields = tuple(_declare(name, *declaration) for name, declaration in cls._declared.items())
        return cls._fields


class Struct(metaclass=StructType):  # noqa: PLW1641 (its lists may change, so that it has no hash)
    """A structure inside a message."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in type(self).__fields__)

    def __repr__(self) -> str:
        values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in type(self).__fields__)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A structure that is encoded on its own, in one of its versions."""

    versions: ClassVar[range]
    flexible_from: ClassVar[int | None]
    # The most elements of all arrays of a decoded message together; None where the bound on its bytes is enough.
    elements_max: ClassVar[int | None] = None
    __readers__: ClassVar[dict[int, Callable[..., Any]]]
    __writers__: ClassVar[dict[int, Callable[..., None]]]

    def __init_subclass__(cls, *, versions: str = "none", flexible: str = "none") -> None:
        flexible_versions = parse_versions(flexible)
        cls.versions = parse_versions(versions)
        cls.flexible_from = flexible_versions.start if flexible_versions else None
        cls.__readers__ = {}
        cls.__writers__ = {}

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return cls.flexible_from is not None and version >= cls.flexible_from


class Data(Message):
    """A message that no API carries, such as a record of an internal topic."""


class ApiMessage(Message):
    """One half of an API: the request or the response with its key."""

    api_key: ClassVar[int] = -1

    def __init_subclass__(cls, *, key: int = -1, versions: str = "none", flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.api_key = key


class Request(ApiMessage):
    elements_max = ELEMENTS_MAX


class Response(ApiMessage):
    pass
