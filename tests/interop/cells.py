"""Records of every kind that a client can write: keys, values and headers that are missing, empty, binary or long."""

from dataclasses import replace

from tests.interop.exchange import Record

FIRST_MS = 1_700_000_000_000

CELLS = (
    Record(b"key", b"value"),
    Record(None, b"no key"),
    Record(b"", b"an empty key"),
    Record(b"an empty value", b""),
    Record(b"a null value", None),
    Record(None, None),
    Record(b"", b""),
    Record(b"", None),
    Record(b"one byte", b"x"),
    Record(b"\x00", b"\x00"),
    Record("schlüssel ✓".encode(), "größe 𝄞".encode()),
    Record(bytes(range(256)), bytes(range(255, -1, -1))),
    Record(b"headers", b"value", (("first", b"1"), ("second", "zwölf".encode()), ("first", b"again"))),
    Record(b"odd headers", b"value", (("empty", b""), ("null", None), ("größe", b"\xff\xfe"))),
    Record(b"binary header", b"value", (("bytes", bytes(range(256))),)),
    Record(None, None, (("only", b"a header"),)),
    Record(b"long", b"what repeats is what compresses; " * 3000),
)
RECORDS = tuple(replace(record, timestamp_ms=FIRST_MS + 10 * number) for number, record in enumerate(CELLS))
