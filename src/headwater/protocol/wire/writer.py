"""Compiles a declared message and a version into one straight-line function that writes it.

Neighbouring values of fixed width become a single pack, together with short arrays of numbers among them: their lengths
select the format. The caller's values are trusted: one that does not fit its field is our own bug.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from headwater.protocol.wire.primitives import write_unsigned_varint
from headwater.protocol.wire.python_source import PythonSource
from headwater.protocol.wire.schema import (
    IDENTIFIER,
    RECORDS,
    TEXT,
    Array,
    Field,
    Kind,
    Message,
    NestedStruct,
    PrefixedBytes,
    Scalar,
    Struct,
)

# The largest value of a varint that takes one byte.
SHORT_MAX = 127


@lru_cache(maxsize=256)
def _scalars(letter: str, count: int) -> Callable[..., bytes]:
    return struct.Struct(f">{count}{letter}").pack


def _packers(template: str, bias: int) -> Callable[..., Callable[..., bytes]]:
    """Selects a pack by the counts of arrays; `bias` is what the encoding adds to a count, so a null array has less."""

    @lru_cache(maxsize=1024)
    def pack_for(*counts: int) -> Callable[..., bytes]:
        return struct.Struct(template.format(*(max(count - bias, 0) for count in counts))).pack

    return pack_for


class _Item(NamedTuple):
    """One argument of a pack. A short varint is packed as one byte; an array is unpacked behind its count."""

    letter: str
    expression: str
    is_varint: bool = False
    counted_by: str = ""


def compile_writer(message: type[Message], version: int) -> Callable[..., None]:
    """A function of a message, the bytearray to append to, and the list of parts whose last part is that bytearray."""
    return _WriterSource(message, version).compile()


class _WriterSource(PythonSource):
    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(varint=write_unsigned_varint, scalars=_scalars, BYTES_LIKE=(bytes, bytearray, memoryview))
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        self.run: list[_Item] = []

    def compile(self) -> Callable[..., None]:
        with self.block("def write(message, out, parts):"):
            self.struct(self.message, "message")
            self.flush()
            self.emit("return")
        return self.function("write", f"writer of {self.message.__name__} v{self.version}")

    def flush(self) -> None:
        run, self.run = self.run, []
        varints = [item.expression for item in run if item.is_varint]
        if not varints:
            self.pack(run)
            return
        with self.block(f"if {' and '.join(f'{varint} <= {SHORT_MAX}' for varint in varints)}:"):
            self.pack(run)
        with self.block("else:"):
            fixed: list[_Item] = []
            for item in run:
                if item.is_varint or item.counted_by:
                    self.pack(fixed)
                    fixed = []
                if item.is_varint:
                    self.emit(f"varint(out, {item.expression})")
                elif item.counted_by:
                    values = item.expression
                    self.emit(f"out += scalars({item.letter!r}, len({values}))(*{values})")
                else:
                    fixed.append(item)
            self.pack(fixed)

    def pack(self, items: list[_Item]) -> None:
        template = ">" + "".join("{}" + item.letter if item.counted_by else item.letter for item in items)
        arguments = ", ".join(
            f"*{item.expression}" if item.counted_by else item.expression for item in items if item.expression
        )
        counts = ", ".join(item.counted_by for item in items if item.counted_by)
        if not items:
            return
        if template == ">B":
            self.emit(f"out.append({arguments})")
        elif template == ">x":
            self.emit("out.append(0)")
        elif counts:
            pack_for = self.constant("pack_for", _packers(template, bias=1 if self.flexible else 0))
            self.emit(f"out += {pack_for}({counts})({arguments})")
        else:
            pack = self.constant("pack", struct.Struct(template).pack)
            self.emit(f"out += {pack}({arguments})")

    def struct(self, struct_class: type[Struct], source: str) -> None:
        tagged: list[Field] = []
        for field in struct_class.__fields__:
            if self.version in field.versions:
                if self.version in field.tagged:
                    tagged.append(field)
                else:
                    nullable = self.version in field.nullable
                    self.value(field.kind, f"{source}.{field.name}", nullable=nullable)
        if self.flexible:
            self.tagged_fields(sorted(tagged, key=lambda field: field.tag or 0), source)

    def tagged_fields(self, fields: list[Field], source: str) -> None:
        # A pad byte needs no argument: it ends the structure at no cost.
        no_tags = _Item("x", "")
        if not fields:
            self.run.append(no_tags)
            return
        present: dict[str, tuple[Field, str]] = {}
        for field in fields:
            value, is_present = self.name("value"), self.name("present")
            default = self.literal(field.default)
            self.emit(f"{value} = {source}.{field.name}")
            differs = f"{value} != {default}"
            if isinstance(field.default, Struct | UUID):
                # Comparing these is a call; the shared default does without.
                differs = f"{value} is not {default} and {differs}"
            self.emit(f"{is_present} = {differs}")
            present[is_present] = field, value
        run = self.run
        with self.block(f"if {' or '.join(present)}:"):
            self.flush()
            self.emit(f"out.append({' + '.join(present)})")
            for is_present, (field, value) in present.items():
                with self.block(f"if {is_present}:"):
                    self.tagged_field(field, value)
        with self.block("else:"):
            self.run = [*run, no_tags]
            self.flush()

    def tagged_field(self, field: Field, value: str) -> None:
        outer = self.name("outer")
        self.emit(f"varint(out, {field.tag})")
        self.emit(f"{outer}, out = out, bytearray()")
        self.value(field.kind, value, nullable=self.version in field.nullable)
        self.flush()
        self.emit(f"varint({outer}, len(out))")
        self.emit(f"{outer} += out")
        self.emit(f"out = {outer}")

    def value(self, kind: Kind, source: str, *, nullable: bool) -> None:
        match kind:
            case Scalar():
                # The same as `UUID.bytes`, with one call less.
                expression = f"{source}.int.to_bytes(16, 'big')" if kind is IDENTIFIER else source
                self.run.append(_Item(kind.format, expression))
            case PrefixedBytes():
                self.prefixed(kind, source, nullable=nullable)
            case Array():
                self.array(kind.element, source, nullable=nullable)
            case NestedStruct():
                self.nested(kind.struct, source, nullable=nullable)

    def length(self, value: str, letter: str, *, nullable: bool, empty: str, encoded: str = "") -> _Item:
        """Emits the computation of the length of `value`, and makes a null value empty."""
        length = self.name("length")
        bias = " + 1" if self.flexible else ""
        if nullable:
            with self.block(f"if {value} is None:"):
                self.emit(f"{value} = {empty}")
                self.emit(f"{length} = {0 if self.flexible else -1}")
            with self.block("else:"):
                if encoded:
                    self.emit(f"{value} = {encoded}")
                self.emit(f"{length} = len({value}){bias}")
        else:
            if encoded:
                self.emit(f"{value} = {encoded}")
            self.emit(f"{length} = len({value}){bias}")
        return _Item("B" if self.flexible else letter, length, is_varint=self.flexible)

    def prefixed(self, kind: PrefixedBytes, source: str, *, nullable: bool) -> None:
        value = self.name("value")
        self.emit(f"{value} = {source}")
        encoded = f"{value}.encode()" if kind is TEXT else ""
        self.run.append(self.length(value, kind.length_format, nullable=nullable, empty="b''", encoded=encoded))
        self.flush()
        if kind is RECORDS:
            with self.block(f"if isinstance({value}, BYTES_LIKE):"):
                self.emit(f"out += {value}")
            with self.block("else:"):
                self.emit("out = bytearray()")
                self.emit(f"parts += ({value}, out)")
        else:
            self.emit(f"out += {value}")

    def array(self, element: Kind, source: str, *, nullable: bool) -> None:
        values = self.name("values")
        self.emit(f"{values} = {source}")
        count = self.length(values, "i", nullable=nullable, empty="()")
        self.run.append(count)
        if isinstance(element, Scalar) and element is not IDENTIFIER:
            self.run.append(_Item(element.format, values, counted_by=count.expression))
            return
        self.flush()
        item = self.name("item")
        with self.block(f"for {item} in {values}:"):
            if isinstance(element, NestedStruct):
                self.struct(element.struct, item)
            else:
                self.value(element, item, nullable=False)
            self.flush()

    def nested(self, struct_class: type[Struct], source: str, *, nullable: bool) -> None:
        item = self.name("struct")
        self.emit(f"{item} = {source}")
        if not nullable:
            self.struct(struct_class, item)
            return
        self.run.append(_Item("b", f"-1 if {item} is None else 1"))
        self.flush()
        with self.block(f"if {item} is not None:"):
            self.struct(struct_class, item)
            self.flush()
