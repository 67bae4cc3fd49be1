"""Records as rows that commands show. UTF-8 bytes are text; others are escaped for people and base64 for programs.

In JSON and YAML a field that is not UTF-8 has the suffix `_base64` in its name; null stays null.
"""

from collections.abc import Callable
from typing import BinaryIO

from headwater.cli.options import time_text
from headwater.cli.serde_options import Decoded, as_json
from headwater.printable import printable
from headwater.protocol.batches.records import Headers

Row = dict[str, object]


def record_row(
    offset: int, timestamp_ms: int, key: bytes | Decoded | None, value: bytes | Decoded | None, headers: Headers
) -> dict[str, object]:
    return {
        "offset": offset,
        "timestamp": time_text(timestamp_ms),
        "timestamp_ms": timestamp_ms,
        **text_field("key", key),
        **text_field("value", value),
        "headers": [{"name": name, **text_field("value", content)} for name, content in headers],
    }


def text_field(name: str, content: bytes | Decoded | None) -> dict[str, object]:
    if content is None:
        return {name: None}
    if isinstance(content, Decoded):
        import orjson

        return {name: orjson.loads(as_json(content.value))}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {f"{name}_base64": b64encode(content).decode()}


def as_bytes(content: bytes | Decoded | None) -> bytes | None:
    """What was decoded is written as JSON, but for text."""
    if not isinstance(content, Decoded):
        return content
    return content.value.encode() if isinstance(content.value, str) else as_json(content.value)


def text_cell(content: bytes | Decoded | None) -> str:
    """Format bytes as one line for a table: non-printable characters are escaped, null is `-`."""
    written = as_bytes(content)
    return "-" if written is None else printable(written.decode(errors="backslashreplace"))


def headers_cell(headers: Headers) -> str:
    return ", ".join(f"{printable(name)}={text_cell(content)}" for name, content in headers) or "-"


def row_writer(format: str, stream: BinaryIO) -> Callable[[Row], None]:
    """Return a function that writes one row: in JSON as an object on a line, in YAML as a document."""
    if format == "json":
        import orjson

        return lambda row: _write(stream, orjson.dumps(row) + b"\n")
    import yaml

    return lambda row: _write(stream, b"---\n" + yaml.safe_dump(row, sort_keys=False, allow_unicode=True).encode())


def _write(stream: BinaryIO, line: bytes) -> None:
    stream.write(line)
