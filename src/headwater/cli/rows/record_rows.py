"""Records as commands show them. Bytes that are UTF-8 are text; others are escaped for people and base64 for programs.

In JSON and YAML a field whose bytes are no UTF-8 has `_base64` at the end of its name; null stays null.
"""

from collections.abc import Callable
from typing import BinaryIO

from headwater.cli.options import time_text
from headwater.printable import printable
from headwater.protocol.batches.records import Headers

Row = dict[str, object]


def record_row(
    offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
) -> dict[str, object]:
    return {
        "offset": offset,
        "timestamp": time_text(timestamp_ms),
        "timestamp_ms": timestamp_ms,
        **text_field("key", key),
        **text_field("value", value),
        "headers": [{"name": name, **text_field("value", content)} for name, content in headers],
    }


def text_field(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {f"{name}_base64": b64encode(content).decode()}


def text_cell(content: bytes | None) -> str:
    """One line for a table: escapes for what is not visible, `-` for null."""
    return "-" if content is None else printable(content.decode(errors="backslashreplace"))


def headers_cell(headers: Headers) -> str:
    return ", ".join(f"{printable(name)}={text_cell(content)}" for name, content in headers) or "-"


def row_writer(format: str, stream: BinaryIO) -> Callable[[Row], None]:
    """Writes rows one by one as they come: JSON as one object a line, YAML as one document each."""
    if format == "json":
        import orjson

        return lambda row: _write(stream, orjson.dumps(row) + b"\n")
    import yaml

    return lambda row: _write(stream, b"---\n" + yaml.safe_dump(row, sort_keys=False, allow_unicode=True).encode())


def _write(stream: BinaryIO, line: bytes) -> None:
    stream.write(line)
