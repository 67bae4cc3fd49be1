import click
import pytest

from headwater.cli.duration import Duration, duration_text


@pytest.mark.parametrize(
    ("written", "expected_ms"),
    [("0ms", 0), ("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2h", 7_200_000), ("7d", 604_800_000)],
)
def test_a_duration_is_a_number_with_its_unit(written: str, expected_ms: int) -> None:
    assert Duration().convert(written, None, None) == expected_ms


@pytest.mark.parametrize("written", ["", "30", "s", "-1s", "1.5s", "1 s", "1s\n", "1w", "1S", "٣s", "9" * 11 + "s"])
def test_an_invalid_duration_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 500ms, 30s, 15m"):
        Duration().convert(written, None, None)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0ms"),
        (7, "7ms"),
        (1_000, "1s 0ms"),
        (59_999, "59s 999ms"),
        (900_000, "15m 0s"),
        (3_723_004, "1h 2m"),
        (86_400_000 * 400 + 1, "400d 0h"),
        (-61_000, "-1m 1s"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text
