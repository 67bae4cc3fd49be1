"""Java's regular expressions in Python: what they match is compared with Java itself, in Spark's RLIKE."""

import re
from typing import TYPE_CHECKING

import pytest

from headwater.errors import ConfigError
from headwater.spark.options.java_pattern import java_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("orders", "Orders.v2", "orders-eu_1", "a", "A", "7", ".", "_", "-", "aa", "abc", "a.b", "a]", "x2", "42")
# The last three are no names of topics; they tell apart classes that are equal for those.
TRANSLATED = (
    r"orders.*",
    r"\p{Alpha}+",
    r"[\p{Alpha}\d_-]+",
    r"[^\p{Punct}]+",
    r"\P{Digit}+",
    r"\pL+",
    r"\p{Lu}\p{javaLowerCase}+.*",
    r"\p{IsAlphabetic}+",
    r"\p{XDigit}+",
    r"\p{Graph}+",
    r"\Qa.b\E",
    r"[\Qa]\E]+",
    r"(?<one>a)\k<one>",
    r"(?<=r)s|orders(?!s)",
    r"(?i)ORDERS",
    r"(?i:O)rders",
    r"a++|(?>aa|a)bc",
    r"[]a]+",
    r"[a&]+",
    r"\w+\.\w\d\z",
    r"\Aorders\Z",
    r"[\w.\-]{1,6}?",
    r"\x61\0142c|\u0061bc",
)
REFUSED = {
    r"[a-z&&[^b]]": "an intersection",
    r"[a[b]]": "brackets inside of brackets",
    r"\p{IsGreek}": r"the class \p{IsGreek}",
    r"[\P{Alpha}]": r"\P{Alpha} inside of brackets",
    r"\R": r"\R",
    r"orders(": "is no regular expression",
    r"(?u)a": "is no regular expression",
    r"[a": "a bracket is not closed",
    r"a" * 2000: "2000 characters",
}


def test_expressions_match_the_same_names_as_in_java(spark: "SparkSession") -> None:
    from pyspark.sql import functions as f

    names = spark.createDataFrame([(name,) for name in NAMES], "name string")
    whole = [f.rlike("name", f.lit(f"^(?:{text})$")).alias(str(index)) for index, text in enumerate(TRANSLATED)]
    in_java = {row[0]: row[1:] for row in names.select("name", *whole).collect()}

    for index, text in enumerate(TRANSLATED):
        ours = {name for name in NAMES if java_pattern(text, "subscribePattern").fullmatch(name)}
        assert ours == {name for name, matched in in_java.items() if matched[index]}, text
        assert ours, f"{text} tells nothing"


@pytest.mark.parametrize("text", REFUSED)
def test_what_python_cannot_say_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(REFUSED[text])) as caught:
        java_pattern(text, "subscribePattern")
    assert "option 'subscribePattern'" in str(caught.value)
