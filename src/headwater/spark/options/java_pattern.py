"""Java's regular expressions in `subscribePattern`, translated to Python's `re`.

Names of topics are ASCII letters, digits, `.`, `_` and `-`, so Java's character classes are those of ASCII here. What
has no equal in Python is refused by name, and never taken for something else.
"""

import re
from collections.abc import Callable
from typing import Final

from headwater.errors import ConfigError

_LETTERS: Final = "A-Za-z"
_ALNUM: Final = "A-Za-z0-9"
# `\p{…}`: POSIX classes, Java's own, and the Unicode categories and properties that people use for ASCII.
_CLASSES: Final = {
    **dict.fromkeys(("lower", "ll", "javalowercase", "islowercase", "islower", "isll"), "a-z"),
    **dict.fromkeys(("upper", "lu", "javauppercase", "isuppercase", "isupper", "islu"), "A-Z"),
    **dict.fromkeys(("alpha", "l", "islatin", "isalphabetic", "isalpha", "javaletter", "isl", "isletter"), _LETTERS),
    **dict.fromkeys(("digit", "nd", "n", "isdigit", "javadigit", "isnd"), "0-9"),
    **dict.fromkeys(("alnum", "javaletterordigit", "isalnum"), _ALNUM),
    **dict.fromkeys(("punct", "ispunct", "ispunctuation"), r"!-/:-@\[-`{-~"),
    **dict.fromkeys(("p", "isp"), r"!-#%-*,-/:;?@\[-\]_{}"),
    "graph": "!-~",
    "print": " -~",
    "xdigit": "0-9A-Fa-f",
    "ascii": r"\x00-\x7f",
    **dict.fromkeys(("blank",), r" \t"),
    **dict.fromkeys(("space", "iswhite_space", "javawhitespace"), r"\s"),
    "cntrl": r"\x00-\x1f\x7f",
}
_PROPERTY: Final = re.compile(r"([pP])(?:\{\^?([A-Za-z_=]+)\}|([A-Za-z]))")
_NAMED_GROUP: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_NAMED_REFERENCE: Final = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>")
# The rest of Java's escapes either mean the same in Python or are here.
_OTHER_ESCAPES: Final = {"z": r"\Z", "Z": r"(?=\n?\Z)", "h": r"[ \t]", "H": r"[^ \t]", "e": r"\x1b"}
_REFUSED_ESCAPES: Final = frozenset("GXRNVvcoEK")
_LENGTH_MAX: Final = 1000


def java_pattern(text: str, option: str) -> re.Pattern[str]:
    """The compiled equivalent of `java.util.regex.Pattern.compile(text)`, for whole names of topics."""
    if len(text) > _LENGTH_MAX:
        raise ConfigError(f"option {option!r} has {len(text)} characters, the limit is {_LENGTH_MAX}")
    try:
        # Java's classes and case folding are those of ASCII unless flags say otherwise.
        return re.compile(_Translation(text, option).result(), re.ASCII)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"option {option!r}: {text!r} is no regular expression: {error}") from None


class _Translation:
    def __init__(self, text: str, option: str) -> None:
        self._text = text
        self._option = option
        self._at = 0
        self._done: list[str] = []

    def result(self) -> str:
        while self._at < len(self._text):
            match self._text[self._at]:
                case "\\":
                    self._done.append(self._escape(lambda inside: f"[{inside}]", negated="[^{}]"))
                case "[":
                    self._character_class()
                case "(" if named := _NAMED_GROUP.match(self._text, self._at):
                    self._done.append(f"(?P<{named[1]}>")
                    self._at = named.end()
                case character:
                    self._done.append(character)
                    self._at += 1
        return "".join(self._done)

    def _escape(self, wrapped: Callable[[str], str], negated: str | None) -> str:
        """The translation of the escape at this position. A class of characters goes through `wrapped`, or into
        `negated` if it is one of all other characters; None: that cannot be said here."""
        escaped = self._text[self._at + 1 : self._at + 2]
        found = _PROPERTY.match(self._text, self._at + 1)
        if found is not None:
            self._at = found.end()
            name = found[2] or found[3]
            key = name.lower().removeprefix("general_category=").removeprefix("gc=")
            if key not in _CLASSES or "^" in found[0]:
                raise self._refusal(f"the class \\{found[0]}")
            if found[1] == "p":
                return wrapped(_CLASSES[key])
            if negated is None:
                raise self._refusal(f"\\{found[0]} inside of brackets")
            return negated.format(_CLASSES[key])
        if escaped == "Q":
            quoted, _, rest = self._text[self._at + 2 :].partition("\\E")
            self._at = len(self._text) - len(rest)
            return re.escape(quoted)
        reference = _NAMED_REFERENCE.match(self._text, self._at + 1)
        if reference is not None:
            self._at = reference.end()
            return f"(?P={reference[1]})"
        if escaped in _REFUSED_ESCAPES and escaped:
            raise self._refusal(f"\\{escaped}")
        self._at += 2
        if escaped in _OTHER_ESCAPES and (negated is not None or escaped == "e"):
            return _OTHER_ESCAPES[escaped]
        # Java lets every character that is no letter be escaped.
        return f"\\{escaped}" if escaped.isascii() else re.escape(escaped)

    def _character_class(self) -> None:
        """Java's brackets may contain further ones, and intersections; Python's may not."""
        start = self._at
        self._at += 1
        parts = ["["]
        if self._text.startswith("^", self._at):
            parts.append("^")
            self._at += 1
        is_empty = True
        while self._at < len(self._text):
            if self._text.startswith("&&", self._at):
                raise self._refusal("an intersection (&&) of classes")
            character = self._text[self._at]
            if character == "]" and not is_empty:
                self._at += 1
                self._done.append("".join([*parts, "]"]))
                return
            if character == "[":
                raise self._refusal("brackets inside of brackets")
            is_empty = False
            if character == "\\":
                parts.append(self._escape(lambda inside: inside, negated=None))
                continue
            # Python warns of characters that a later version may give a meaning.
            parts.append(f"\\{character}" if character in "&~|]" else character)
            self._at += 1
        self._at = start
        raise ConfigError(f"option {self._option!r}: {self._text!r} is no regular expression: a bracket is not closed")

    def _refusal(self, what: str) -> ConfigError:
        return ConfigError(
            f"option {self._option!r}: {what} in {self._text!r} is not supported; write it with plain brackets such as "
            "[A-Za-z0-9]"
        )
