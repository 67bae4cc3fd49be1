"""Records as /v1, event streams and WebSockets write them in JSON.

A value is any bytes. As `value` it is text, or JSON where that is asked for; bytes that are neither are `value_base64`.
Keys and the values of headers follow the same rule.
"""

import binascii
from base64 import b64decode, b64encode
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from headwater.errors import ErrorCode, Refusal
from headwater.listeners.http.records.writer import NewRecord
from headwater.protocol.batches import directives
from headwater.protocol.batches.records import Headers, Record

Format: TypeAlias = Literal["text", "json", "base64"]
TIMESTAMP_MAX = 2**53

_decode_json = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode


class HeaderForm(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One header of a record."""

    name: str
    value: str | UnsetType | None = UNSET
    value_base64: str | UnsetType = UNSET


class RecordForm(msgspec.Struct, omit_defaults=True):
    """A record that was read."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Raw | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    headers: list[HeaderForm] = []


class NewRecordForm(msgspec.Struct, forbid_unknown_fields=True):
    """A record to write. A string is written as its text, null as a tombstone, any other value as its JSON.

    What it asks of the broker (`delay_ms` to `schedule_id`) is refused where the topic's settings do not heed it."""

    key: Raw | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    headers: list[HeaderForm] = []
    partition: int | None = None
    timestamp_ms: int | None = None
    # When it is to appear: so long after now, or at a time in ms since 1970.
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    # A name by which to find it until then.
    schedule_id: str | None = None
    # From 0 (critical) to 4 (background).
    priority: int | None = None
    # How long share groups may deliver it.
    ttl_ms: int | None = None

    def to_record(self) -> NewRecord:
        """Raises a Refusal."""
        if self.partition is not None and not 0 <= self.partition < 2**31:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no partition {self.partition}")
        if self.timestamp_ms is not None and not 0 <= self.timestamp_ms <= TIMESTAMP_MAX:
            raise Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp_ms is 0 to {TIMESTAMP_MAX}")
        asked = self._directives()
        return NewRecord(
            _bytes_of("key", self.key, self.key_base64),
            _bytes_of("value", self.value, self.value_base64),
            (*((each.name, _header_bytes(each)) for each in self.headers), *asked),
            self.partition,
            self.timestamp_ms,
            tuple(name for name, _ in asked),
        )

    def _directives(self) -> Headers:
        return tuple(
            (name, str(value).encode(errors="replace"))
            for name, value in (
                (directives.DELAY_MS, self.delay_ms),
                (directives.DELIVER_AT, self.deliver_at_ms),
                (directives.SCHEDULE_ID, self.schedule_id),
                (directives.PRIORITY, self.priority),
                (directives.TTL_MS, self.ttl_ms),
            )
            if value is not None
        )


def _bytes_of(name: str, plain: Raw | UnsetType, base64: str | UnsetType) -> bytes | None:
    if base64 is not UNSET:
        if plain is not UNSET:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} and {name}_base64 say the same thing: give one of them")
        return from_base64(name, base64)
    if plain is UNSET:
        return None
    raw = bytes(memoryview(plain)).strip()
    if raw == b"null":
        return None
    return _decode_text(raw).encode() if raw.startswith(b'"') else raw


def _header_bytes(header: HeaderForm) -> bytes | None:
    if header.value_base64 is not UNSET:
        if header.value is not UNSET:
            message = f"value and value_base64 of header {header.name[:80]!r} say the same thing: give one of them"
            raise Refusal(ErrorCode.INVALID_REQUEST, message)
        return from_base64("a header", header.value_base64)
    return None if header.value is UNSET or header.value is None else header.value.encode()


def from_base64(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} is not base64") from None


def record_form(partition: int, record: Record, form: Format = "text") -> RecordForm:
    shown = RecordForm(partition, record.offset, record.timestamp)
    shown.key, shown.key_base64 = content_form(record.key, form)
    shown.value, shown.value_base64 = content_form(record.value, form)
    if record.headers:
        shown.headers = header_forms(record.headers)
    return shown


def content_form(content: bytes | None, form: Format) -> tuple[Raw | UnsetType, str | UnsetType]:
    if content is None:
        return Raw(b"null"), UNSET
    if form == "json":
        try:
            # As it was written: numbers keep all their digits.
            _decode_json(content)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            form = "text"
        else:
            return Raw(bytes(content)), UNSET
    if form == "text":
        try:
            return Raw(msgspec.json.encode(content.decode())), UNSET
        except UnicodeDecodeError:
            pass
    return UNSET, b64encode(content).decode()


def header_forms(headers: Headers) -> list[HeaderForm]:
    forms: list[HeaderForm] = []
    for name, value in headers:
        try:
            forms.append(HeaderForm(name, None if value is None else value.decode()))
        except UnicodeDecodeError:
            forms.append(HeaderForm(name, value_base64=b64encode(value or b"").decode()))
    return forms
