"""Headers by which a producer asks the broker for something: when to deliver a record, how urgent it is, how long it
lives.

A topic heeds only the directives that its settings switch on; to other topics they are headers like any other. A
directive that says something impossible is refused, never ignored.
"""

import re
from typing import Final, NamedTuple

from headwater.errors import HeadwaterError
from headwater.protocol.batches import records
from headwater.protocol.batches.records import Buffer, Headers

DELAY_MS: Final = "headwater-delay-ms"
DELIVER_AT: Final = "headwater-deliver-at"
SCHEDULE_ID: Final = "headwater-schedule-id"
PRIORITY: Final = "headwater-priority"
TTL_MS: Final = "headwater-ttl-ms"

# The lanes, from 0 (critical) to 4 (background). A record that names none is in the middle one.
PRIORITIES: Final = 5
PRIORITY_NORMAL: Final = 2
SCHEDULE_ID_CHARACTERS_MAX: Final = 256

# Finds out whether a batch needs to be decoded, without decoding it. The letters may also stand in a value.
_ANY = re.compile(b"headwater-(?:delay-ms|deliver-at|schedule-id|priority|ttl-ms)")
_LANES: Final[dict[bytes | None, int]] = {b"%d" % lane: lane for lane in range(PRIORITIES)}
_NUMBER = re.compile(rb"[0-9]{1,16}")


class InvalidDirective(HeadwaterError):
    """A directive that says something impossible."""


class Heeded(NamedTuple):
    """Which directives a topic heeds."""

    delay: bool
    priority: bool
    ttl: bool


class Directives(NamedTuple):
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    schedule_id: str | None = None
    priority: int = PRIORITY_NORMAL
    ttl_ms: int | None = None


def named_in(payload: Buffer) -> bool:
    """Whether records may have directives. False means that none has."""
    return _ANY.search(payload) is not None


def read(headers: Headers, heeded: Heeded) -> Directives:
    given: dict[str, bytes] = {}
    for name, value in headers:
        if is_heeded(name, heeded):
            if name in given:
                raise InvalidDirective(f"has the header '{name}' twice")
            if value is None:
                raise InvalidDirective(f"has the header '{name}' without a value")
            given[name] = value
    if not given:
        return Directives()
    if DELAY_MS in given and DELIVER_AT in given:
        raise InvalidDirective(f"has both '{DELAY_MS}' and '{DELIVER_AT}': only one of them may be given")
    if SCHEDULE_ID in given and DELAY_MS not in given and DELIVER_AT not in given:
        raise InvalidDirective(f"has '{SCHEDULE_ID}', but neither '{DELAY_MS}' nor '{DELIVER_AT}'")
    return Directives(
        _number(given, DELAY_MS, "milliseconds"),
        _number(given, DELIVER_AT, "milliseconds since 1970"),
        _schedule_id(given),
        _priority(given),
        _number(given, TTL_MS, "milliseconds"),
    )


def priority_of(headers: Headers) -> int:
    """The lane of a record in a log. An impossible priority was written before the topic heeded it: a header like any
    other."""
    given: bytes | None = None
    for name, value in headers:
        if name == PRIORITY:
            if given is not None or value not in _LANES:
                return PRIORITY_NORMAL
            given = value
    return PRIORITY_NORMAL if given is None else _LANES[given]


def faults(payload: Buffer, count: int, heeded: Heeded, faults_max: int, first_index: int = 0) -> list[tuple[int, str]]:
    """The records whose directives are impossible, by their index, and why; at most `faults_max` of them."""
    found: list[tuple[int, str]] = []
    if not named_in(payload):
        return found
    for index, record in enumerate(records.decode(payload, count, 0, 0), first_index):
        if len(found) == faults_max:
            break
        try:
            read(record.headers, heeded)
        except InvalidDirective as fault:
            found.append((index, str(fault)))
    return found


def is_heeded(name: str, heeded: Heeded) -> bool:
    match name:
        case "headwater-delay-ms" | "headwater-deliver-at" | "headwater-schedule-id":
            return heeded.delay
        case "headwater-priority":
            return heeded.priority
        case "headwater-ttl-ms":
            return heeded.ttl
        case _:
            return False


def _number(given: dict[str, bytes], name: str, unit: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if _NUMBER.fullmatch(value) is None:
        raise InvalidDirective(f"has '{name}' {_shown(value)}: a whole number of {unit} is expected, in digits")
    return int(value)


def _priority(given: dict[str, bytes]) -> int:
    value = given.get(PRIORITY)
    if value is None:
        return PRIORITY_NORMAL
    if len(value) != 1 or not b"0" <= value <= b"4":
        raise InvalidDirective(f"has '{PRIORITY}' {_shown(value)}: 0 (critical) to {PRIORITIES - 1} (background) exist")
    return value[0] - ord("0")


def _schedule_id(given: dict[str, bytes]) -> str | None:
    value = given.get(SCHEDULE_ID)
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if not 0 < len(text) <= SCHEDULE_ID_CHARACTERS_MAX or not text.isprintable():
        raise InvalidDirective(
            f"has '{SCHEDULE_ID}' {_shown(value)}: 1 to {SCHEDULE_ID_CHARACTERS_MAX} printable characters are expected"
        )
    return text


def _shown(value: bytes) -> str:
    return repr(value[:40])
