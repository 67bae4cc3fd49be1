"""Directives: what the headers of a record may ask for, and what is refused."""

import pytest

from headwater.protocol.batches import directives, records
from headwater.protocol.batches.directives import Directives, Heeded, InvalidDirective
from headwater.protocol.batches.invalid_record import refusal_of_each
from headwater.protocol.batches.records import Headers, Record

ALL = Heeded(delay=True, priority=True, ttl=True)
NONE = Heeded(delay=False, priority=False, ttl=False)


@pytest.mark.parametrize(
    ("headers", "meaning"),
    [
        ((), Directives()),
        ((("color", b"red"), ("color", b"blue")), None),
        ((("headwater-delay-ms", b"0"),), Directives(delay_ms=0)),
        (
            (("headwater-deliver-at", b"1700000000000"), ("headwater-schedule-id", b"wecker-7")),
            Directives(deliver_at_ms=1_700_000_000_000, schedule_id="wecker-7"),
        ),
        ((("headwater-priority", b"4"), ("headwater-ttl-ms", b"60000")), Directives(priority=4, ttl_ms=60_000)),
    ],
)
def test_directives_are_read(headers: Headers, meaning: Directives | None) -> None:
    if meaning is None:
        # Two headers of one name that are no directives concern nobody.
        meaning = Directives()
    assert directives.read(headers, ALL) == meaning


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ((("headwater-delay-ms", b"-1"),), "'headwater-delay-ms' b'-1': a whole number of milliseconds"),
        ((("headwater-delay-ms", "٣".encode()),), "in digits"),
        ((("headwater-delay-ms", b"12345678901234567"),), "in digits"),
        ((("headwater-delay-ms", None),), "without a value"),
        ((("headwater-delay-ms", b"1"), ("headwater-delay-ms", b"1")), "twice"),
        ((("headwater-delay-ms", b"1"), ("headwater-deliver-at", b"1")), "only one of them"),
        ((("headwater-schedule-id", b"a"),), "neither"),
        ((("headwater-delay-ms", b"1"), ("headwater-schedule-id", b"")), "printable"),
        ((("headwater-delay-ms", b"1"), ("headwater-schedule-id", b"\xff")), "printable"),
        ((("headwater-delay-ms", b"1"), ("headwater-schedule-id", b"a\n")), "printable"),
        ((("headwater-delay-ms", b"1"), ("headwater-schedule-id", b"a" * 257)), "1 to 256"),
        ((("headwater-priority", b"9"),), "0 \\(critical\\) to 4 \\(background\\)"),
        ((("headwater-priority", b"high"),), "0 \\(critical\\)"),
        ((("headwater-ttl-ms", b"1.5"),), "in digits"),
    ],
)
def test_an_impossible_directive_is_refused_with_what_is_expected(headers: Headers, fault: str) -> None:
    with pytest.raises(InvalidDirective, match=fault):
        directives.read(headers, ALL)
    # To a topic that heeds no directives it is a header like any other.
    assert directives.read(headers, NONE) == Directives()


def test_all_records_with_impossible_directives_are_named_up_to_a_limit() -> None:
    bad: Headers = (("headwater-priority", b"9"),)
    payload = records.encode([Record(n, 0, None, b"", bad if n % 2 else ()) for n in range(10)], 0, 0)

    found = directives.faults(payload, 10, ALL, 3, first_index=100)
    assert [index for index, _ in found] == [101, 103, 105]
    refusal = refusal_of_each(found)
    assert refusal.index == 101
    assert refusal.refused == found
    assert "3 records are refused" in str(refusal)
    assert directives.faults(payload, 10, NONE, 3) == []
