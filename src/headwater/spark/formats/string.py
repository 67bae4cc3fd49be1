"""`string`: each value is UTF-8 text, which is checked."""

from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark.sql.types import DataType, StringType

from headwater.spark.arrow import Array
from headwater.spark.formats.decoding import Decoded, DecodeFailure, bisect
from headwater.spark.formats.types import array, check_same


@dataclass(frozen=True, slots=True)
class StringFormat:
    def column_type(self) -> DataType:
        return StringType()

    def check(self, column: str, datatype: DataType) -> None:
        check_same(column, datatype, StringType())

    def decoder(self, datatype: DataType) -> "StringDecoder":
        assert isinstance(datatype, StringType), "checked when the read was planned"
        return StringDecoder()


class StringDecoder:
    arrow_type = pa.string()

    def decode(self, column: Array) -> Decoded:
        return bisect(column, as_text, _singly)


def as_text(column: Array) -> Array:
    """The same bytes as strings. Raises if any of them is not UTF-8."""
    return column.cast(pa.string())


def _singly(column: Array) -> Decoded:
    texts: list[str | None] = []
    failures: list[DecodeFailure] = []
    for row, data in enumerate(cast("list[bytes]", column.to_pylist())):
        text, reason = text_of(data)
        texts.append(text)
        if text is None:
            failures.append(DecodeFailure(row, reason))
    return Decoded(array(texts, pa.string()), failures)


def text_of(data: bytes) -> tuple[str | None, str]:
    """The text, or None and the reason."""
    try:
        return data.decode(), ""
    except UnicodeDecodeError as error:
        return None, f"not UTF-8: {error.reason} at byte {error.start}"
