"""The head of an HTTP response."""

from headwater.listeners.http.dispatcher import reason_of
from headwater.listeners.http.response import Headers


def render_head(
    status: int, content_type: str, headers: Headers, *, date: str, version: str, is_last: bool
) -> bytearray:
    """Without the empty line that ends it. `version` is the request's; after the last response the connection ends."""
    lines = [
        f"HTTP/1.1 {status} {reason_of(status)}\r\ndate: {date}\r\n",
        "x-content-type-options: nosniff\r\ncache-control: no-store\r\n",
    ]
    if content_type:
        lines.append(f"content-type: {content_type}\r\n")
    lines += [f"{name}: {_one_line(value)}\r\n" for name, value in headers]
    if is_last:
        lines.append("connection: close\r\n")
    elif version == "1.0":
        lines.append("connection: keep-alive\r\n")
    return bytearray("".join(lines).encode("latin-1", "replace"))


def _one_line(value: str) -> str:
    """No value can end its line and begin another."""
    return value.replace("\r", " ").replace("\n", " ")
