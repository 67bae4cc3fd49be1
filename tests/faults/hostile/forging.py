"""Request frames generated from the message declarations: honest ones, and ones that lie about their content.

A lie is in a length, a count, a tag, the size of a nested field or a null. Changes that ignore structure (bits flipped,
bytes cut off, doubled, moved) come on top.
"""

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from headwater.ids import TopicName
from headwater.listeners.kafka.api_table import APIS
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.protocol.consumer_protocol import Subscription, write_assignment, write_subscription
from headwater.protocol.wire.primitives import write_unsigned_varint
from headwater.protocol.wire.schema import (
    IDENTIFIER,
    RECORDS,
    TEXT,
    Array,
    Kind,
    NestedStruct,
    PrefixedBytes,
    Request,
    Scalar,
    Struct,
)

REQUESTS: Sequence[type[Request]] = [api.load()[0] for api in APIS]
BY_KEY: Mapping[int, type[Request]] = {request.api_key: request for request in REQUESTS}

# How many lengths of one message are lies.
LIES = (0.0, 0.0, 0.02, 0.2)
# How many times the bytes of one message are changed after that.
CHANGES = (0, 0, 0, 1, 1, 3)
ARRAY_MAX = 3

_BITS = {"b": 8, "h": 16, "i": 32, "q": 64, "H": 16, "I": 32}
_FIRST, _SECOND = (Record(offset, 1_700_000_000_000, b"key", b"value") for offset in range(2))
_BATCHES = [
    bytes(batches.build([_FIRST], codec=Codec.NONE)),
    bytes(batches.build([_FIRST, _SECOND], producer_id=7, producer_epoch=0, base_sequence=0)),
    bytes(batches.build([_FIRST], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)),
    *(bytes(batches.build([_FIRST], codec=codec)) for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)),
]
_CRC_POSITION, _SEALED_FROM = 17, 21


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names and ids that exist on the broker, so that requests get past the first check."""

    words: Sequence[str] = ("orders", "group", "consumer", "range", "uniform", "retention.ms", "cleanup.policy")
    identifiers: Sequence[UUID] = (UUID(int=1),)
    # The longest wait that honest requests ask for; None if no one waits for the response.
    wait_ms_max: int | None = None


class Frame(NamedTuple):
    """Without its size prefix."""

    content: bytes
    request: type[Request]
    version: int


class Forger:
    def __init__(self, chance: random.Random, vocabulary: Vocabulary | None = None) -> None:
        self._chance = chance
        self._vocabulary = vocabulary or Vocabulary()
        self._lies = 0.0
        words = [TopicName(word) for word in self._vocabulary.words]
        self._blobs = [write_subscription(Subscription(words)), write_assignment({words[0]: [0]}), b""]

    def frame(self, request: type[Request], version: int) -> Frame:
        """An honest or a lying frame, at random."""
        return self.lying_frame(request, version, self._chance.choice(LIES), self._chance.choice(CHANGES))

    def lying_frame(self, request: type[Request], version: int, lies: float, changes: int) -> Frame:
        self._lies = lies
        flexible = request.is_flexible(version)
        out = bytearray(struct.pack(">hhi", *self._head(request.api_key, version)))
        self._prefixed(out, TEXT, flexible=False, nullable=True)
        if flexible:
            self._tagged_fields(out, [])
        self._struct(out, request, version, flexible=flexible)
        for _ in range(changes):
            self._change(out)
        return Frame(bytes(out), request, version)

    def honest_body(self, request: type[Request], version: int) -> bytes:
        self._lies = 0.0
        out = bytearray()
        self._struct(out, request, version, flexible=request.is_flexible(version))
        return bytes(out)

    def _head(self, key: int, version: int) -> tuple[int, int, int]:
        if self._lie():
            key = self._chance.choice([-1, 4, 24, 999, 32767, self._chance.choice(REQUESTS).api_key])
        if self._lie():
            version = self._chance.choice([-1, 0, version + 1, 32767])
        return key, version, self._chance.randrange(1 << 31)

    def _lie(self) -> bool:
        return self._lies > 0 and self._chance.random() < self._lies

    # -- structures

    def _struct(self, out: bytearray, declared: type[Struct], version: int, *, flexible: bool) -> None:
        tagged: list[tuple[int, bytes]] = []
        for field in declared.__fields__:
            if version not in field.versions:
                continue
            nullable = version in field.nullable
            if version not in field.tagged:
                self._value(out, field.kind, version, field.name, flexible=flexible, nullable=nullable)
            elif field.tag is not None and self._chance.random() < 0.5:
                content = bytearray()
                self._value(content, field.kind, version, field.name, flexible=flexible, nullable=nullable)
                tagged.append((field.tag, bytes(content)))
        if flexible:
            self._tagged_fields(out, sorted(tagged))

    def _tagged_fields(self, out: bytearray, fields: list[tuple[int, bytes]]) -> None:
        if self._chance.random() < 0.1:
            # An unknown tag must be skipped.
            fields = [*fields, (5000, self._chance.randbytes(3))]
        if self._lie():
            fields = [*fields, *fields, (self._chance.randrange(3), b"")]
        self._varint(out, self._wrong(len(fields)) if self._lie() else len(fields))
        for tag, content in fields:
            self._varint(out, tag)
            self._varint(out, self._wrong(len(content)) if self._lie() else len(content))
            out += content

    def _value(
        self, out: bytearray, kind: Kind, version: int, name: str, *, flexible: bool, nullable: bool = False
    ) -> None:
        match kind:
            case Scalar():
                out += self._scalar(kind, name)
            case PrefixedBytes():
                self._prefixed(out, kind, flexible=flexible, nullable=nullable)
            case Array():
                is_null = nullable and self._chance.random() < 0.1
                count = -1 if is_null else self._chance.randrange(ARRAY_MAX + 1)
                self._length(out, "i", count, flexible=flexible)
                for _ in range(count):
                    self._value(out, kind.element, version, name, flexible=flexible)
            case NestedStruct():
                is_null = nullable and self._chance.random() < 0.3
                if nullable:
                    out += struct.pack(">b", -1 if is_null else self._chance.choice([1, -5, 127]) if self._lie() else 1)
                if not is_null:
                    self._struct(out, kind.struct, version, flexible=flexible)

    def _scalar(self, kind: Scalar, name: str) -> bytes:
        chance = self._chance
        if kind is IDENTIFIER:
            return chance.choice([*self._vocabulary.identifiers, UUID(int=0), UUID(int=chance.getrandbits(128))]).bytes
        if kind.format == "?":
            return bytes([chance.choice([0, 1, 255]) if self._lie() else chance.randrange(2)])
        if kind.format == "d":
            return struct.pack(">d", chance.choice([0.0, -1.5, float("inf"), float("nan")]))
        bits = _BITS[kind.format]
        wait_ms_max = self._vocabulary.wait_ms_max
        if name.endswith("_ms") and wait_ms_max is not None:
            number = chance.randint(0, wait_ms_max)
        elif chance.random() < 0.7:
            number = chance.choice([-1, 0, 0, 1, 2, 3, 4, 7])
        else:
            number = chance.choice([1 << (bits - 1), (1 << (bits - 1)) - 1, chance.getrandbits(bits)])
        return (number & ((1 << bits) - 1)).to_bytes(bits // 8, "big")

    def _prefixed(self, out: bytearray, kind: PrefixedBytes, *, flexible: bool, nullable: bool) -> None:
        if nullable and self._chance.random() < 0.15:
            self._length(out, kind.length_format, -1, flexible=flexible)
            return
        content = self._text() if kind is TEXT else self._records() if kind is RECORDS else self._blob()
        self._length(out, kind.length_format, len(content), flexible=flexible)
        out += content

    def _text(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.75:
            return chance.choice(self._vocabulary.words).encode()
        if self._lie():
            return chance.choice([b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\x00"])
        return chance.choice(
            ["", "ä€😀", "../..", "a" * 300, "a\nb", "^(a+)+$", "%s{0}", f"{chance.random()}"]
        ).encode()

    def _blob(self) -> bytes:
        return self._chance.choice([*self._blobs, self._chance.randbytes(self._chance.randrange(30))])

    def _records(self) -> bytes:
        """Batches whose checksum is mostly valid, so that later checks have to find the other errors."""
        batch = bytearray(self._chance.choice(_BATCHES))
        for _ in range(self._chance.choice([0, 0, 1, 2])):
            self._change(batch)
        if len(batch) > _SEALED_FROM and self._chance.random() < 0.8:
            struct.pack_into(">i", batch, 8, len(batch) - 12)
            struct.pack_into(">I", batch, _CRC_POSITION, batches.crc32c(bytes(batch[_SEALED_FROM:])))
        return bytes(batch)

    # -- lengths

    def _length(self, out: bytearray, letter: str, length: int, *, flexible: bool) -> None:
        if self._lie():
            length = self._wrong(length)
        if flexible:
            self._varint(out, length + 1)
        else:
            bits = _BITS[letter]
            out += (length & ((1 << bits) - 1)).to_bytes(bits // 8, "big")

    def _varint(self, out: bytearray, value: int) -> None:
        if self._lie():
            out += b"\x80" * self._chance.randrange(1, 7)
        write_unsigned_varint(out, value & 0xFFFF_FFFF)

    def _wrong(self, length: int) -> int:
        chance = self._chance
        extremes = [0, -1, -2, 127, 128, 32767, 100_001, (1 << 31) - 1, -(1 << 31)]
        return chance.choice([length - 1, length + 1, 2 * length, chance.choice(extremes), chance.randrange(1 << 31)])

    # -- bytes

    def _change(self, data: bytearray) -> None:
        """One change to bytes, regardless of their structure."""
        chance = self._chance
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice([1, 1, 2, 4, 8, 16]))
        match chance.randrange(8):
            case 0:
                del data[start:]
            case 1:
                data += chance.randbytes(chance.randrange(1, 20))
            case 2 | 3:
                for position in range(start, min(end, start + 1)):
                    data[position] ^= 1 << chance.randrange(8)
            case 4:
                data[start:end] = chance.choice([b"\x00", b"\x7f", b"\x80", b"\xff"]) * (end - start)
            case 5:
                del data[start:end]
            case 6:
                data[start:start] = data[start:end]
            case _:
                elsewhere = chance.randrange(len(data) + 1)
                data[elsewhere:elsewhere] = data[start:end]
