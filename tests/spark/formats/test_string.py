"""String format: a value is UTF-8 or a bad record, at any place of a batch."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StringType

from headwater.errors import ConfigError
from headwater.spark.formats.decoding import decode
from headwater.spark.formats.string import StringFormat

DECODER = StringFormat().decoder(StringType())


@given(st.lists(st.none() | st.binary(max_size=8) | st.text(max_size=8).map(str.encode)))
def test_each_row_becomes_text_or_a_failure(values: list[bytes | None]) -> None:
    found = decode(DECODER, pa.array(values, pa.binary()))

    failed = {row for row, _ in found.failures}
    for row, (value, text) in enumerate(zip(values, found.values.to_pylist(), strict=True)):
        if row in failed:
            assert text is None
            with pytest.raises(UnicodeDecodeError):
                (value or b"").decode()
        else:
            assert text == (None if value is None else value.decode())


def test_one_bad_row_among_many_is_found() -> None:
    values = [b"good"] * 5_000
    values[3_333] = b"ab\xff"

    found = decode(DECODER, pa.array(values, pa.binary()))

    assert found.failures == [(3_333, "not UTF-8: invalid start byte at byte 2")]
    assert found.values.type == pa.string()
    assert found.values.null_count == 1


def test_only_the_slice_of_a_column_is_decoded() -> None:
    column = pa.array([b"\xff", b"a", None, b"b"], pa.binary())[1:]
    assert decode(DECODER, column).values.to_pylist() == ["a", None, "b"]


def test_another_column_type_than_string_is_refused() -> None:
    with pytest.raises(ConfigError, match="column 'value' is string, not binary"):
        StringFormat().check("value", BinaryType())
