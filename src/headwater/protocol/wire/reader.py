"""Compiles a declared message and a version into one straight-line function that reads it.

Neighbouring values of fixed width, and the length or count that follows them, become a single unpack. Every length is
checked against the bytes that are left before anything is sliced or looped over.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from uuid import UUID

from headwater.errors import ProtocolError
from headwater.protocol.wire.primitives import continue_unsigned_varint, read_unsigned_varint, skip_tagged_fields
from headwater.protocol.wire.python_source import PythonSource
from headwater.protocol.wire.schema import (
    BYTES,
    IDENTIFIER,
    RECORDS,
    TEXT,
    TEXT_BYTES_MAX,
    Array,
    Field,
    Kind,
    Message,
    NestedStruct,
    PrefixedBytes,
    Scalar,
    Struct,
)


@lru_cache(maxsize=4096)
def _identifier(raw: bytes) -> UUID:
    # LRU: building a UUID costs more than reading the rest of a small request, and clients repeat the same few topics.
    return UUID(bytes=raw)


@lru_cache(maxsize=256)
def _scalars(letter: str, count: int) -> Callable[..., tuple[Any, ...]]:
    return struct.Struct(f">{count}{letter}").unpack_from


def size_min(kind: Kind, version: int, *, flexible: bool) -> int:
    """The fewest bytes that a value can take; never 0, so that the bytes left always bound a count."""
    match kind:
        case Scalar():
            return kind.size
        case PrefixedBytes():
            return 1 if flexible else struct.calcsize(kind.length_format)
        case Array():
            return 1 if flexible else 4
        case NestedStruct():
            total = 1 if flexible else 0
            for field in kind.struct.__fields__:
                if version in field.versions and version not in field.tagged:
                    is_nullable_struct = isinstance(field.kind, NestedStruct) and version in field.nullable
                    total += 1 if is_nullable_struct else size_min(field.kind, version, flexible=flexible)
            return max(1, total)


def has_records(struct_class: type[Struct]) -> bool:
    def holds(kind: Kind) -> bool:
        match kind:
            case Array():
                return holds(kind.element)
            case NestedStruct():
                return has_records(kind.struct)
            case _:
                return kind is RECORDS

    return any(holds(field.kind) for field in struct_class.__fields__)


def compile_reader(message: type[Message], version: int) -> Callable[..., Any]:
    """A function of a buffer and a position that returns the message or raises ProtocolError."""
    return _ReaderSource(message, version).compile()


class _ReaderSource(PythonSource):
    """In the generated code `b` is the buffer, `p` the position in it and `limit` its end."""

    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(
            new=object.__new__,
            identifier=_identifier,
            scalars=_scalars,
            varint=read_unsigned_varint,
            longer_varint=continue_unsigned_varint,
            skip=skip_tagged_fields,
            ProtocolError=ProtocolError,
            EndsEarly=(IndexError, struct.error),
        )
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        self.shares_input = has_records(message)
        # The values of the next unpack: a format letter for each, and where to store it.
        self.run: list[tuple[str, str]] = []
        self.after_run: list[str] = []

    def compile(self) -> Callable[..., Any]:
        title = f"{self.message.__name__} v{self.version}"
        with self.block("def read(buffer, p, exact):"):
            # Bytes are the fastest to read from, but records are passed on as a view of the caller's buffer.
            kind = "memoryview" if self.shares_input else "bytes"
            self.emit(f"b = buffer if type(buffer) is {kind} else {kind}(buffer)")
            self.emit("limit = len(b)")
            if self.message.elements_max is not None:
                self.emit(f"room = {self.message.elements_max}")
            with self.block("try:"):
                self.struct(self.message, "message")
                self.flush()
                with self.block("if exact and p != limit:"):
                    self.emit("raise ValueError(f'{limit - p} bytes are left over')")
                self.emit("return message")
            with self.block("except EndsEarly:"):
                self.emit(f"raise ProtocolError('{title}: the message ends early') from None")
            with self.block("except ValueError as error:"):
                self.emit(f"raise ProtocolError(f'{title}: {{error}}') from None")
        return self.function("read", f"reader of {title}")

    def flush(self) -> None:
        if self.run:
            letters = ">" + "".join(letter for letter, _ in self.run)
            targets = [target for _, target in self.run]
            if letters == ">B":
                self.emit(f"{targets[0]} = b[p]")
            else:
                unpack = self.constant("unpack", struct.Struct(letters).unpack_from)
                self.emit(f"{', '.join(targets)}, = {unpack}(b, p)")
            self.emit(f"p += {struct.calcsize(letters)}")
        for line in self.after_run:
            self.emit(line)
        self.run, self.after_run = [], []

    def struct(self, struct_class: type[Struct], target: str) -> None:
        self.emit(f"{target} = new({self.constant(struct_class.__name__, struct_class)})")
        tagged: list[Field] = []
        for field in struct_class.__fields__:
            present = self.version in field.versions
            if present and self.version not in field.tagged:
                self.value(field, field.kind, f"{target}.{field.name}", f"{struct_class.__name__}.{field.name}")
            else:
                self.emit(f"{target}.{field.name} = {self.literal(field.default)}")
                if present:
                    tagged.append(field)
        if self.flexible:
            self.tagged_fields(struct_class, target, tagged)

    def tagged_fields(self, struct_class: type[Struct], target: str, fields: list[Field]) -> None:
        count = self.name("tags")
        self.run.append(("B", count))
        self.flush()
        with self.block(f"if {count}:"):
            self.finish_varint(count)
            self.take_room(count, "elements and tagged fields")
            if not fields:
                self.emit(f"p = skip(b, p, {count})")
                return
            end = self.name("end")
            with self.block(f"for _ in range({count}):"):
                self.emit("tag, p = varint(b, p)")
                self.emit("size, p = varint(b, p)")
                self.emit(f"{end} = p + size")
                self.refuse_if(f"{end} > limit", "a tagged field runs past the end")
                keyword = "if"
                for field in fields:
                    label = f"{struct_class.__name__}.{field.name}"
                    with self.block(f"{keyword} tag == {field.tag}:"):
                        self.value(field, field.kind, f"{target}.{field.name}", label)
                        self.flush()
                        self.refuse_if(f"p != {end}", f"{label} does not fill its tagged field")
                    keyword = "elif"
                self.emit(f"p = {end}")

    def finish_varint(self, value: str) -> None:
        """Reads on where the first byte of a varint has its high bit set. Lengths mostly take one or two bytes, so only
        longer ones pay for a call."""
        with self.block(f"if {value} > 127:"):
            with self.block("if b[p] < 128:"):
                self.emit(f"{value} += (b[p] - 1) * 128")
                self.emit("p += 1")
            self.emit(f"else: {value}, p = longer_varint(b, p, {value})")

    def take_room(self, count: str, what: str) -> None:
        """Counts unknown tagged fields, too: each takes only two bytes, and work to skip it."""
        if self.message.elements_max is not None:
            self.emit(f"room -= {count}")
            self.refuse_if("room < 0", f"more than {self.message.elements_max} {what}")

    def refuse_if(self, condition: str, reason: str) -> None:
        self.emit(f"if {condition}: raise ValueError({reason!r})")

    def value(self, field: Field | None, kind: Kind, target: str, label: str) -> None:
        """Reads one value into `target`; `field` is None for an element of an array, which is never null."""
        nullable = field is not None and self.version in field.nullable
        match kind:
            case Scalar():
                if kind is IDENTIFIER:
                    raw = self.name("raw")
                    self.run.append((kind.format, raw))
                    self.after_run.append(f"{target} = identifier({raw})")
                else:
                    self.run.append((kind.format, target))
            case PrefixedBytes():
                self.prefixed(kind, target, label, nullable=nullable)
            case Array():
                self.array(kind.element, target, label, nullable=nullable)
            case NestedStruct():
                self.nested(kind.struct, target, nullable=nullable)

    def length(self, letter: str) -> str:
        """Reads a length or a count into a variable, -1 for null. Returns its name."""
        length = self.raw_length(letter)
        if self.flexible:
            self.emit(f"{length} -= 1")
        return length

    def raw_length(self, letter: str) -> str:
        """As `length`, but in flexible versions the number stays as it is sent: one more, and 0 for null."""
        length = self.name("length")
        if self.flexible:
            self.run.append(("B", length))
            self.flush()
            self.finish_varint(length)
        else:
            self.run.append((letter, length))
            self.flush()
        return length

    def prefixed(self, kind: PrefixedBytes, target: str, label: str, *, nullable: bool) -> None:
        length = self.raw_length(kind.length_format)
        # Flexible lengths are unsigned: only the others can be negative.
        null, end = ("0", f"p + {length} - 1") if self.flexible else ("-1", f"p + {length}")
        invalid = "" if self.flexible else f"{length} < 0 or "
        if kind is TEXT and self.flexible:
            self.refuse_if(f"{length} > {TEXT_BYTES_MAX + 1}", f"{label} is longer than {TEXT_BYTES_MAX} bytes")
        if kind is TEXT:
            taken = "str(b[p:end], 'utf-8')" if self.shares_input else "b[p:end].decode()"
        elif kind is BYTES and self.shares_input:
            taken = "bytes(b[p:end])"
        else:
            taken = "b[p:end]"
        with self.block(f"if {length} == {null}:"):
            if nullable:
                self.emit(f"{target} = None")
            else:
                self.emit(f"raise ValueError({f'{label} is null'!r})")
        with self.block("else:"):
            self.emit(f"end = {end}")
            self.refuse_if(f"{invalid}end > limit", f"{label} runs past the end")
            self.emit(f"{target} = {taken}")
            self.emit("p = end")

    def array(self, element: Kind, target: str, label: str, *, nullable: bool) -> None:
        count = self.length("i")
        if nullable:
            with self.block(f"if {count} == -1:"):
                self.emit(f"{target} = None")
            with self.block("else:"):
                self.elements(element, target, label, count)
        else:
            self.elements(element, target, label, count)

    def elements(self, element: Kind, target: str, label: str, count: str) -> None:
        element_size = size_min(element, self.version, flexible=self.flexible)
        self.refuse_if(
            f"{count} < 0 or {count} * {element_size} > limit - p", f"{label} is null or has more elements than bytes"
        )
        self.take_room(count, "elements in all arrays together")
        if isinstance(element, Scalar) and element is not IDENTIFIER:
            self.emit(f"{target} = list(scalars({element.format!r}, {count})(b, p))")
            self.emit(f"p += {count} * {element.size}")
            return
        elements, item = self.name("elements"), self.name("item")
        self.emit(f"{target} = {elements} = []")
        with self.block(f"for _ in range({count}):"):
            if isinstance(element, NestedStruct):
                self.struct(element.struct, item)
            else:
                self.value(None, element, item, label)
            self.flush()
            self.emit(f"{elements}.append({item})")

    def nested(self, struct_class: type[Struct], target: str, *, nullable: bool) -> None:
        item = self.name("struct")
        if not nullable:
            self.struct(struct_class, item)
            self.emit(f"{target} = {item}")
            return
        presence = self.name("presence")
        self.run.append(("b", presence))
        self.flush()
        with self.block(f"if {presence} < 0:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self.struct(struct_class, item)
            self.flush()
            self.emit(f"{target} = {item}")
