"""The headers of dead letters: written, read, and taken off again."""

import pytest

from headwater.protocol.batches.dead_letter_headers import (
    CONTENT,
    DELIVERY_COUNT,
    MESSAGE,
    NAMES,
    OFFSET,
    PARTITION,
    REASON,
    TIME,
    DeadLetterOrigin,
    Reason,
    message,
    read,
    redriven_count,
    redriven_mark,
    stripped,
    written,
)
from headwater.protocol.batches.records import Headers

ORIGIN = DeadLetterOrigin(
    "örders", 3, 1 << 40, "billing", 5, Reason.EXHAUSTED, 1_700_000_000_000, 1_600_000_000_000, True
)
OWN: Headers = (("trace", b"1"), ("empty", None))


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("is_copied", [True, False])
@pytest.mark.parametrize("timestamp_ms", [None, 0, 1_600_000_000_000])
def test_what_is_written_is_read(reason: Reason, is_copied: bool, timestamp_ms: int | None) -> None:
    origin = ORIGIN._replace(reason=reason, is_copied=is_copied, timestamp_ms=timestamp_ms)
    headers = (*OWN, *written(origin))
    assert read(headers) == origin
    assert stripped(headers) == OWN


def test_values_are_text_as_kip_1191_says() -> None:
    headers = dict(written(ORIGIN._replace(reason=Reason.REJECTED)))
    assert tuple(headers) == NAMES
    assert headers["__dlq.errors.topic"] == "örders".encode()
    assert (headers[OFFSET], headers[DELIVERY_COUNT]) == (b"1099511627776", b"5")
    assert (headers[MESSAGE], headers[REASON], headers[CONTENT]) == (
        b"Offset rejected by client.",
        b"rejected",
        b"copied",
    )


def test_the_last_of_several_sets_counts() -> None:
    again = DeadLetterOrigin("orders.dlq", 0, 7, "repair", 2, Reason.REJECTED, 5, 4, True)
    first = (*OWN, *written(ORIGIN))
    headers = (*first, *written(again))
    assert read(headers) == again
    assert stripped(headers) == first
    assert read(stripped(headers)) == ORIGIN


def test_a_dead_letter_of_kafka_is_read() -> None:
    headers = tuple(each for each in written(ORIGIN) if each[0].startswith("__dlq."))
    found = read(headers)
    assert found is not None
    assert (found.reason, found.delivery_count, found.time_ms, found.timestamp_ms) == (Reason.EXHAUSTED, 5, -1, None)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        OWN,
        (("__dlq.errors.topic", None),),
        tuple(each for each in written(ORIGIN) if each[0] != OFFSET),
        (*written(ORIGIN), (OFFSET, b"seven")),
        (*written(ORIGIN), (TIME, b"\xff")),
        (*written(ORIGIN), (REASON, b"boredom")),
        (*written(ORIGIN), (OFFSET, b"-1")),
        (*written(ORIGIN), (OFFSET, b"9223372036854775808")),
        (*written(ORIGIN), (PARTITION, b"2147483648")),
    ],
)
def test_other_records_are_no_dead_letters(headers: Headers) -> None:
    assert read(headers) is None


def test_a_redriven_record_says_which_dead_letter_it_was() -> None:
    assert redriven_mark("orders.dlq", 2, 17) == ("headwater-redriven", b"orders.dlq/2@17")


def test_what_a_dead_letter_got_later_stays() -> None:
    """A letter of orders.dlq that became one of orders.dlq.dlq and was put back is a letter of orders.dlq again."""
    mark = redriven_mark("orders.dlq.dlq", 0, 4)
    headers = (*OWN, *written(ORIGIN), ("__dlq.errors.exception", b"x"), mark)
    assert read(headers) == ORIGIN
    assert stripped(headers) == (*OWN, mark)
    assert redriven_count(stripped((*headers, redriven_mark("orders.dlq", 2, 17)))) == 2


def test_the_message_is_that_of_the_last_set() -> None:
    assert (
        message((*written(ORIGIN), *written(ORIGIN._replace(reason=Reason.REJECTED)))) == "Offset rejected by client."
    )
    assert message((*written(ORIGIN), (MESSAGE, b"\xff"))) == "\ufffd"
    assert message((*written(ORIGIN), (MESSAGE, None))) == message(OWN) == ""
