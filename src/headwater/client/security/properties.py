"""Properties files in Java's format, as Kafka's own tools read them, in UTF-8. `\\uXXXX` escapes work, too."""

import re
from collections.abc import Iterator
from pathlib import Path

from headwater.errors import ConfigError
from headwater.printable import printable

BYTES_MAX = 1_048_576

_NAME = re.compile(r"(?:[^\\=:\s]|\\.)*")
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(file: Path) -> dict[str, str]:
    try:
        with file.open("rb") as opened:
            content = opened.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    if len(content) > BYTES_MAX:
        raise ConfigError(f"{file} is larger than {BYTES_MAX} bytes")
    properties: dict[str, str] = {}
    try:
        for name, value in _pairs(content.decode()):
            if name in properties:
                raise ConfigError(f"{file}: {printable(name)[:200]} is set twice")
            properties[name] = value
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8") from None
    return properties


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in _logical_lines(text):
        name = _NAME.match(line)
        assert name is not None, "it matches everywhere, if nothing"
        separator = _SEPARATOR.match(line, name.end())
        assert separator is not None, "it matches everywhere, if nothing"
        yield _unescaped(name[0]), _unescaped(line[separator.end() :])


def _logical_lines(text: str) -> Iterator[str]:
    parts: list[str] = []
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(" \t\f")
        if not parts and (not line or line[0] in "#!"):
            continue
        # An odd number of backslashes at the end continues the line.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1])
            continue
        yield "".join((*parts, line))
        parts.clear()
    if parts:
        yield "".join(parts)


def _unescaped(text: str) -> str:
    # Java writes a character beyond U+FFFF as two escapes, a surrogate pair. Encoding as UTF-16 joins the two.
    return _ESCAPE.sub(_resolved, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _resolved(found: re.Match[str]) -> str:
    escape = found[1]
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPED.get(escape, escape)


def escaped(value: str) -> str:
    """The value as it stands in a properties file, which `read_properties` turns back into `value`."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\f", "\\f")
    # White space at the beginning would belong to the separator.
    return f"\\{text}" if text[:1] in {" ", "\t"} else text
