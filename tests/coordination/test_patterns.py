"""Regular expressions of clients: they match the whole text, and too costly ones are refused."""

import pytest

from headwater.coordination.patterns import LENGTH_MAX, whole_matcher
from headwater.errors import ErrorCode, Refusal


def test_the_whole_text_must_match() -> None:
    matches = whole_matcher("a+")

    assert matches("aaa") is not None
    assert matches("aaab") is None
    assert matches("") is None


@pytest.mark.parametrize(
    "regex", ["(", "a{1000}{1000}{1000}", "(?:[a-z0-9]?){1000}b", "\ud800", "(?=a)", "a" * (LENGTH_MAX + 1)]
)
def test_invalid_or_too_costly_patterns_are_refused(regex: str) -> None:
    with pytest.raises(Refusal) as refusal:
        whole_matcher(regex)
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
