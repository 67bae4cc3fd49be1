"""The words of a .proto file."""

import re
from typing import Final

from headwater.registry.errors import InvalidSchema

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<word>[A-Za-z_.][A-Za-z0-9_.]*|[0-9][A-Za-z0-9_.]*(?:(?<=[eE])[+-][0-9]+)?)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>[-+{}()\[\]<>=;:,/])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)


class Tokens:
    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._tokens)

    @property
    def next(self) -> str:
        """The next token without taking it; empty at the end. A string still has its quotation marks."""
        return self._tokens[self._position][0] if not self.is_at_end else ""

    def take(self) -> str:
        token = self.next
        if not token:
            raise InvalidSchema("the file ends where more is expected")
        self._position += 1
        return token

    def skip(self, token: str) -> bool:
        """Take the token if it is the next one."""
        if self.next != token:
            return False
        self._position += 1
        return True

    def expect(self, token: str) -> None:
        if not self.skip(token):
            raise self.error(f"'{token}' is expected, not '{self.next[:40]}'")

    def word(self) -> str:
        token = self.take()
        if not (token[0].isalpha() or token[0] in "_."):
            self._position -= 1
            raise self.error(f"a name is expected, not '{token[:40]}'")
        return token

    def name(self) -> str:
        name = self.word()
        if "." in name:
            raise self.error(f"'{name[:40]}' must not contain a dot")
        return name

    def number(self) -> int:
        sign = -1 if self.skip("-") else 1
        token = self.take()
        try:
            # A leading 0 is octal, as in C.
            is_octal = len(token) > 1 and token[0] == "0" and token.isdigit()
            return sign * int(token, 8 if is_octal else 0)
        except ValueError:
            self._position -= 1
            raise self.error(f"a number is expected, not '{token[:40]}'") from None

    def is_text(self) -> bool:
        return self.next[:1] in ('"', "'") and self.next != ""

    def text(self) -> str:
        """One string, or several that follow each other."""
        if not self.is_text():
            raise self.error(f"a string is expected, not '{self.next[:40]}'")
        parts: list[str] = []
        while self.is_text():
            parts.append(_unescaped(self.take()[1:-1]))
        return "".join(parts)

    def error(self, problem: str) -> InvalidSchema:
        position = min(self._position, len(self._tokens) - 1)
        line = self._tokens[position][1] if self._tokens else 1
        return InvalidSchema(f"line {line}: {problem}")


def _split(text: str) -> list[tuple[str, int]]:
    """The tokens, each with its line."""
    tokens: list[tuple[str, int]] = []
    position, line = 0, 1
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise InvalidSchema(f"line {line}: '{text[position : position + 20]}' is not understood")
        if found.lastgroup != "blank":
            tokens.append((found.group(), line))
        line += text.count("\n", position, found.end())
        position = found.end()
    return tokens


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text

    def replace(found: re.Match[str]) -> str:
        hexadecimal, octal, other = found.groups()
        if hexadecimal is not None:
            return chr(int(hexadecimal, 16))
        if octal is not None:
            return chr(int(octal, 8) & 0xFF)
        return _ESCAPES.get(other, other)

    return _ESCAPE.sub(replace, text)
